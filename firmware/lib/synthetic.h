/* Synthetic programs in the manner of ANDES (Kitajima and Plateau; section 5.1 of Fagot and Chassin de
 * Kergommeaux): real programs whose consumption of processor and messages can be set.
 *
 * Standard input may hold two numbers: how much each process computes, in turns of busy_work (about two
 * instructions each), and how often the whole is done. */
#ifndef SYNTHETIC_H
#define SYNTHETIC_H

#include "athapascan.h"
#include "hash.h"
#include "machine.h"

/* The next number of standard input, or `otherwise` when there is none. */
static inline long read_number(long otherwise) {
    long byte, number = 0;
    int digits = 0;
    while ((byte = (long)machine_read(MACHINE_CONSOLE_RX)) >= 0) {
        if (byte >= '0' && byte <= '9') {
            number = number * 10 + byte - '0';
            digits = 1;
        } else if (digits)
            break;
    }
    return digits ? number : otherwise;
}

static inline void compute(long turns) {
    if (turns > 0)
        busy_work(turns);
}

/* Where process `number` of a program runs: the same for the same number of processors. */
static inline long place_of(unsigned long number) {
    return (long)(hash_mix(7, number) % (unsigned long)at_processors());
}

#endif
