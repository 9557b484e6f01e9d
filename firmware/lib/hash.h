/* splitmix64's finaliser: the deterministic "random numbers" of the programs. */
#ifndef HASH_H
#define HASH_H

static inline unsigned long hash_mix(unsigned long seed, unsigned long value) {
    unsigned long z = seed + (value + 1) * 0x9E3779B97F4A7C15UL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9UL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBUL;
    return z ^ (z >> 31);
}

#endif
