/* Parallel radix sort, four bits a pass: each core counts the digits of its share, every core adds up
 * the counts before its own, then scatters its share. Prints the sum of key * (place + 1), and how many
 * neighbours are in order; exit code 1 when the keys are not sorted or not the same keys. */
#include "barrier.h"
#include "console.h"
#include "hash.h"
#include "machine.h"

#ifndef KEYS /* build.py makes larger ones, for measuring */
#define KEYS 256
#define DIGIT_BITS 4
#endif
#define DIGITS (1 << DIGIT_BITS)
#define PASSES 3
#define KEY_MASK ((1UL << DIGIT_BITS * PASSES) - 1)

static struct barrier all_cores;
static unsigned keys[2][KEYS] LINE_ALIGNED;
static unsigned digit_counts[MACHINE_MAX_CORES][DIGITS] LINE_ALIGNED;
static volatile long key_sum LINE_ALIGNED;

static unsigned digit_of(unsigned key, int pass) { return key >> pass * DIGIT_BITS & (DIGITS - 1); }

static NOINLINE void count_digits(long core, const unsigned *from, long first, long last, int pass) {
    for (long digit = 0; digit < DIGITS; digit++)
        digit_counts[core][digit] = 0;
    for (long i = first; i < last; i++)
        digit_counts[core][digit_of(from[i], pass)]++;
}

/* places[d]: where this core's first key with digit d goes. */
static NOINLINE void find_places(long core, long cores, unsigned *places) {
    unsigned place = 0;
    for (long digit = 0; digit < DIGITS; digit++)
        for (long other = 0; other < cores; other++) {
            if (other == core)
                places[digit] = place;
            place += digit_counts[other][digit];
        }
}

static NOINLINE void scatter_keys(const unsigned *from, unsigned *to, long first, long last, int pass,
                                  unsigned *places) {
    for (long i = first; i < last; i++)
        to[places[digit_of(from[i], pass)]++] = from[i];
}

static void sort_share(long core, long cores, long first, long last) {
    unsigned places[DIGITS];
    for (int pass = 0; pass < PASSES; pass++) {
        count_digits(core, keys[pass & 1], first, last, pass);
        barrier_wait(&all_cores, cores);
        find_places(core, cores, places);
        scatter_keys(keys[pass & 1], keys[~pass & 1], first, last, pass, places);
        barrier_wait(&all_cores, cores);
    }
}

int main(long core, long cores) {
    long first = KEYS * core / cores, last = KEYS * (core + 1) / cores, sum = 0;
    for (long i = first; i < last; i++) {
        keys[0][i] = (unsigned)(hash_mix(5, (unsigned long)i) & KEY_MASK);
        sum += keys[0][i];
    }
    fetch_add(&key_sum, sum);
    sort_share(core, cores, first, last);
    if (core != 0)
        return 0;
    const unsigned *sorted = keys[PASSES & 1];
    long in_order = 0, weighed = 0, left = key_sum;
    for (long i = 0; i < KEYS; i++) {
        in_order += i > 0 && sorted[i - 1] <= sorted[i];
        weighed += (long)sorted[i] * (i + 1);
        left -= sorted[i];
    }
    print_field("radix: keys ", KEYS);
    print_field(" in order ", in_order);
    print_field(" checksum ", weighed);
    print_string("\n");
    return in_order != KEYS - 1 || left != 0;
}
