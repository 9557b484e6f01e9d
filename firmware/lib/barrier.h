/* Sense-reversing barrier: the last core to arrive resets the count and flips the sense that the others
 * spin on. Count and sense sit in lines of their own. */
#ifndef BARRIER_H
#define BARRIER_H

#include "atomic.h"

struct barrier {
    volatile long arrived LINE_ALIGNED;
    volatile long sense LINE_ALIGNED;
};

static inline void barrier_wait(struct barrier *barrier, long cores) {
    long sense = barrier->sense; /* cannot flip before this core has arrived */
    if (fetch_add(&barrier->arrived, 1) == cores - 1) {
        barrier->arrived = 0;
        compiler_fence();
        barrier->sense = !sense;
    } else {
        while (barrier->sense == sense)
            cpu_pause();
    }
}

/* The same in two phases: a core says that it has come, does something else, and then waits for the others. What
 * the first phase gives goes to the second. */
static inline long barrier_notify(struct barrier *barrier, long cores) {
    long sense = barrier->sense; /* as above */
    if (fetch_add(&barrier->arrived, 1) == cores - 1) {
        barrier->arrived = 0;
        compiler_fence();
        barrier->sense = !sense;
    }
    return sense;
}

static inline void barrier_await(struct barrier *barrier, long sense) {
    while (barrier->sense == sense)
        cpu_pause();
}

#endif
