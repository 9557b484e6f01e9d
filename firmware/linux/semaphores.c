/* Semaphores: two threads that take turns, at most 3 of 8 threads inside at once, try and timed waits. */
#include "guest.h"
#include <limits.h>
#include <semaphore.h>

#define TURNS 40
#define ROUNDS 10

static sem_t turn[2], places, empty;
static char said[2 * TURNS + 1];
static long said_count, inside, visits;

static void *take_turns(void *argument) {
    long self = (long)argument;
    for (int i = 0; i < TURNS; i++) {
        CHECK(sem_wait(&turn[self]) == 0);
        said[said_count++] = "ab"[self];
        CHECK(sem_post(&turn[!self]) == 0);
    }
    return NULL;
}

static void *visit(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(sem_wait(&places) == 0);
        long here = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        CHECK(here <= 3);
        sched_yield();
        __atomic_fetch_add(&visits, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
        CHECK(sem_post(&places) == 0);
    }
    return argument;
}

static void *post_later(void *argument) {
    sleep_ms(2);
    CHECK(sem_post(&empty) == 0);
    return argument;
}

static void wait_with_limits(void) {
    struct timespec until = time_from_now(CLOCK_REALTIME, 5);
    CHECK_FAILS(sem_trywait(&empty), EAGAIN);
    CHECK_FAILS(sem_timedwait(&empty, &until), ETIMEDOUT);
    until = time_from_now(CLOCK_MONOTONIC, 5);
    CHECK_FAILS(sem_clockwait(&empty, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    pthread_t poster = start(post_later, NULL);
    until = time_from_now(CLOCK_REALTIME, 100000);
    CHECK(sem_timedwait(&empty, &until) == 0);
    join(poster);
    sem_t full;
    CHECK(sem_init(&full, 0, SEM_VALUE_MAX) == 0);
    CHECK_FAILS(sem_post(&full), EOVERFLOW);
}

int main(void) {
    int value;
    CHECK(sem_init(&turn[0], 0, 1) == 0 && sem_init(&turn[1], 0, 0) == 0);
    CHECK(sem_init(&places, 0, 3) == 0 && sem_init(&empty, 0, 0) == 0);
    run_threads(2, take_turns);
    for (int i = 0; i < 2 * TURNS; i++)
        CHECK(said[i] == "ab"[i % 2]);
    run_threads(8, visit);
    CHECK(sem_getvalue(&places, &value) == 0 && value == 3 && visits == 8 * ROUNDS);
    wait_with_limits();
    printf("semaphores: turns %d, visits %ld, places %d, time-outs 2\n", 2 * TURNS, visits, value);
    return 0;
}
