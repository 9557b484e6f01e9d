/* What the parallel kernels share: arguments, a barrier for all threads, shares of work, checksums.
 *
 * Each is a small relative of one of SPLASH-2 (Woo, Ohara, Torrie, Singh and Gupta, ISCA 1995), written from the
 * algorithm. Arguments: how many threads (1 to 8), and a size. What a kernel prints depends on the size alone:
 * what each thread computes does not depend on who computes the rest, and sums in which threads take turns are of
 * whole numbers. It is compared with what one thread computes; where they differ it exits with 1. */
#ifndef KERNELS_H
#define KERNELS_H

#include "guest.h"
#include <emmintrin.h>
#include <stdlib.h>

#define MOST_THREADS 8

static long threads = 4;
static pthread_barrier_t all_here;

UNUSED static _Noreturn void say_usage(const char *program, long least, long most, long step) {
    dprintf(2, "usage: %s THREADS SIZE: 1 to %d threads; size %ld to %ld, a multiple of %ld\n", program, MOST_THREADS,
            least, most, step);
    exit(2);
}

/* The threads, and the size, which is `size` if there is none; the barrier is ready for so many threads. */
UNUSED static long read_arguments(int count, char **arguments, long size, long least, long most, long step) {
    threads = count > 1 ? atol(arguments[1]) : threads;
    size = count > 2 ? atol(arguments[2]) : size;
    if (threads < 1 || threads > MOST_THREADS || size < least || size > most || size % step)
        say_usage(arguments[0], least, most, step);
    CHECK(pthread_barrier_init(&all_here, NULL, threads) == 0);
    return size;
}

UNUSED static void wait_for_all(void) {
    int result = pthread_barrier_wait(&all_here);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
}

/* Where the share of `thread` in 0 to n - 1 begins; it ends where the next one's begins. */
UNUSED static long share(long thread, long n) {
    return n * thread / threads;
}

/* A number from 0 to below 1. */
UNUSED static double next_unit(unsigned long *state) {
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* The processor's square root, the same everywhere; no mathematical library is needed. */
UNUSED static double root(double x) {
    __m128d value = _mm_set_sd(x);
    return _mm_cvtsd_f64(_mm_sqrt_sd(value, value));
}

/* A checksum that goes on with a value (FNV-1a over words). */
UNUSED static unsigned long mix(unsigned long sum, unsigned long value) {
    return (sum ^ value) * 0x100000001b3ul;
}

UNUSED static unsigned long mix_doubles(unsigned long sum, const double *values, long n) {
    for (long i = 0; i < n; i++) {
        unsigned long bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum = mix(sum, bits);
    }
    return sum;
}

#define FIRST_SUM 0xcbf29ce484222325ul

#endif
