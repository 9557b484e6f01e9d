/* The body of the two Peterson programs: they differ in PETERSON_FENCE() alone. */
#ifndef PETERSON_H
#define PETERSON_H

#include "barrier.h"
#include "console.h"
#include "machine.h"

#define ROUNDS 12
#define INSIDE 10

static struct barrier all_cores;
static volatile long wants[2][MACHINE_LINE_BYTES / sizeof(long)] LINE_ALIGNED;
static volatile long turn LINE_ALIGNED;
static volatile long guarded_counter LINE_ALIGNED;

static NOINLINE void peterson_acquire(long me) {
    long other = 1 - me;
    wants[me][0] = 1;
    turn = other;
    PETERSON_FENCE();
    while (wants[other][0] && turn == other)
        cpu_pause();
}

static NOINLINE void peterson_release(long me) {
    compiler_fence();
    wants[me][0] = 0;
}

int main(long core, long cores) {
    long players = cores < 2 ? cores : 2;
    barrier_wait(&all_cores, cores);
    for (long round = 0; core < players && round < ROUNDS; round++) {
        peterson_acquire(core);
        long seen = guarded_counter;
        busy_work(INSIDE);
        guarded_counter = seen + 1;
        peterson_release(core);
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field(PETERSON_NAME ": count ", guarded_counter);
    print_string("\n");
    return guarded_counter != ROUNDS * players;
}

#endif
