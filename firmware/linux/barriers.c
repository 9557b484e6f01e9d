/* Barriers: 8 threads, 20 rounds; in every round each sees what its neighbour wrote before, and exactly one
 * is told that it was the last. Built at fixed addresses (no PIE). */
#include "guest.h"

#define THREADS 8
#define ROUNDS 20

static pthread_barrier_t barrier;
static long round_of[THREADS], last_ones[ROUNDS];

static void *take_part(void *argument) {
    long self = (long)argument, neighbour = (self + 1) % THREADS;
    for (long round = 0; round < ROUNDS; round++) {
        round_of[self] = round;
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&last_ones[round], 1, __ATOMIC_SEQ_CST);
        CHECK(round_of[neighbour] == round);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    run_threads(THREADS, take_part);
    for (int round = 0; round < ROUNDS; round++)
        CHECK(last_ones[round] == 1);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
    printf("barriers: threads %d rounds %d, one last in each\n", THREADS, ROUNDS);
    return 0;
}
