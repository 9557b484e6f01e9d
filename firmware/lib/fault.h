/* The body of the fault programs: a little shared work by all cores, then core 1 (core 0 when it is
 * alone) calls take_the_fault(), which must not return. */
#ifndef FAULT_H
#define FAULT_H

#include "barrier.h"
#include "machine.h"

#define ROUNDS 20
#define NOT_FAULTED 9

static struct barrier all_cores;
static volatile long shared_work LINE_ALIGNED;

static void take_the_fault(void);

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    for (long round = 0; round < ROUNDS; round++) {
        fetch_add(&shared_work, 1);
        busy_work(20);
    }
    if (core == (cores > 1 ? 1 : 0)) {
        take_the_fault();
        machine_power_off(NOT_FAULTED);
    }
    barrier_wait(&all_cores, cores); /* nobody gets past it: one core does not come */
    return NOT_FAULTED;
}

#endif
