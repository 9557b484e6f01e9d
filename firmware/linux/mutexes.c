/* Every kind of mutex, with 8 threads that contend for it: normal, recursive, error-checking, adaptive,
 * trylock and timedlock. */
#include "guest.h"

#define THREADS 8
#define ROUNDS 100

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t tried = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive, error_checking;
static long normal_count, adaptive_count, tried_count, recursive_count, checked_count;

static void *count(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_mutex_lock(&normal) == 0);
        normal_count++;
        CHECK(pthread_mutex_unlock(&normal) == 0);
        CHECK(pthread_mutex_lock(&adaptive) == 0);
        adaptive_count++;
        CHECK(pthread_mutex_unlock(&adaptive) == 0);
        CHECK(pthread_mutex_lock(&error_checking) == 0);
        checked_count++;
        CHECK(pthread_mutex_lock(&error_checking) == EDEADLK);
        CHECK(pthread_mutex_unlock(&error_checking) == 0);
        for (int depth = 0; depth < 3; depth++)
            CHECK(pthread_mutex_lock(&recursive) == 0);
        recursive_count++;
        for (int depth = 0; depth < 3; depth++)
            CHECK(pthread_mutex_unlock(&recursive) == 0);
    }
    return argument;
}

static void *count_by_trying(void *argument) {
    for (int round = 0; round < ROUNDS / 4; round++) {
        int result;
        while ((result = pthread_mutex_trylock(&tried)) == EBUSY)
            sched_yield();
        CHECK(result == 0);
        tried_count++;
        CHECK(pthread_mutex_unlock(&tried) == 0);
    }
    return argument;
}

/* Runs while main holds `normal` and `error_checking`. */
static void *fail_to_lock(void *argument) {
    long before = now(CLOCK_MONOTONIC);
    struct timespec until = time_from_now(CLOCK_REALTIME, 20);
    CHECK(pthread_mutex_trylock(&normal) == EBUSY);
    CHECK(pthread_mutex_timedlock(&normal, &until) == ETIMEDOUT);
    CHECK(now(CLOCK_MONOTONIC) - before >= 15 * MILLISECOND);
    until = time_from_now(CLOCK_MONOTONIC, 5);
    CHECK(pthread_mutex_clocklock(&normal, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    until.tv_nsec = SECOND;
    CHECK(pthread_mutex_timedlock(&normal, &until) == EINVAL);
    CHECK(pthread_mutex_unlock(&error_checking) == EPERM);
    return argument;
}

static void initialise(pthread_mutex_t *mutex, int type) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, type) == 0);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0);
    CHECK(pthread_mutexattr_destroy(&attributes) == 0);
}

int main(void) {
    initialise(&recursive, PTHREAD_MUTEX_RECURSIVE);
    initialise(&error_checking, PTHREAD_MUTEX_ERRORCHECK);
    run_threads(THREADS, count);
    run_threads(4, count_by_trying);
    CHECK(pthread_mutex_lock(&normal) == 0 && pthread_mutex_lock(&error_checking) == 0);
    run_threads(2, fail_to_lock);
    CHECK(pthread_mutex_unlock(&normal) == 0 && pthread_mutex_unlock(&error_checking) == 0);
    struct timespec until = time_from_now(CLOCK_REALTIME, 1000);
    CHECK(pthread_mutex_timedlock(&normal, &until) == 0 && pthread_mutex_unlock(&normal) == 0);
    CHECK(pthread_mutex_destroy(&normal) == 0 && pthread_mutex_destroy(&recursive) == 0);
    long wanted = THREADS * ROUNDS;
    CHECK(normal_count == wanted && adaptive_count == wanted && checked_count == wanted);
    CHECK(recursive_count == wanted && tried_count == wanted / 8);
    printf("mutexes: counted %ld of each kind, %ld by trying, time-outs 4\n", wanted, tried_count);
    return 0;
}
