/* What the guest programs share: checks, threads, time.
 *
 * A check that does not hold prints itself on standard error and ends the whole program with exit code 1, at
 * once and without the locks of stdio, so that it also works in a signal handler and among stuck threads. */
#ifndef GUEST_H
#define GUEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define UNUSED __attribute__((unused))
#define MILLISECOND 1000000L
#define SECOND 1000000000L

/* The program goes on only if `condition` holds. */
#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

/* The program goes on only if `call` fails with errno `number`. */
#define CHECK_FAILS(call, number) CHECK((call) == -1 && errno == (number))

UNUSED static _Noreturn void check_failed(const char *condition, const char *file, int line) {
    dprintf(2, "%s:%d: %s does not hold (errno %d)\n", file, line, condition, errno);
    _exit(1);
}

UNUSED static pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    return thread;
}

UNUSED static void *join(pthread_t thread) {
    void *result;
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

/* Run `n` (at most 64) threads of `body`, with the arguments 0 to n - 1, to their ends. */
UNUSED static void run_threads(long n, void *(*body)(void *)) {
    pthread_t threads[64];
    for (long i = 0; i < n; i++)
        threads[i] = start(body, (void *)i);
    for (long i = 0; i < n; i++)
        join(threads[i]);
}

/* Nanoseconds of a clock. */
UNUSED static long now(clockid_t clock) {
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    return time.tv_sec * SECOND + time.tv_nsec;
}

UNUSED static struct timespec timespec_of(long nanoseconds) {
    return (struct timespec){.tv_sec = nanoseconds / SECOND, .tv_nsec = nanoseconds % SECOND};
}

/* The absolute time `milliseconds` from now. */
UNUSED static struct timespec time_from_now(clockid_t clock, long milliseconds) {
    return timespec_of(now(clock) + milliseconds * MILLISECOND);
}

UNUSED static void sleep_ms(long milliseconds) {
    struct timespec rest = timespec_of(milliseconds * MILLISECOND);
    while (nanosleep(&rest, &rest) == -1)
        CHECK(errno == EINTR);
}

/* A small generator of numbers (xorshift64), the same everywhere; the state must not be 0. */
UNUSED static unsigned long next_random(unsigned long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
