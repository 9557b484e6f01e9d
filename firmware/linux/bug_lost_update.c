/* A seeded bug: two threads add to a counter without a lock. When one is interrupted between its load and its
 * store, the other's additions are lost. Exit code 1 when the count is wrong.
 *
 * GOOD: an atomic addition. */
#include "guest.h"

#define THREADS 2
#define ROUNDS 20

static volatile long counter;

static NOINLINE void add_one(void) {
#ifdef GOOD
    __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
#else
    long old = counter;
    counter = old + 1;
#endif
}

static void *count(void *argument) {
    for (int round = 0; round < ROUNDS; round++)
        add_one();
    return argument;
}

int main(void) {
    run_threads(THREADS, count);
    printf(PROGRAM ": expected %d found %ld\n", THREADS * ROUNDS, counter);
    return counter != THREADS * ROUNDS;
}
