/* 64 threads at once: each adds up its part of a series, pairs then combine in a tree (6 levels). */
#include "guest.h"

#define THREADS 64
#define TERMS 500

static unsigned long sums[THREADS];
static pthread_barrier_t together;

static void *reduce(void *argument) {
    long self = (long)argument;
    for (long i = 0; i < TERMS; i++)
        sums[self] += (self * TERMS + i) * (self * TERMS + i);
    for (long distance = 1; distance < THREADS; distance *= 2) {
        pthread_barrier_wait(&together);
        if (self % (2 * distance) == 0)
            sums[self] += sums[self + distance];
    }
    return NULL;
}

int main(void) {
    unsigned long n = THREADS * TERMS - 1;
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    run_threads(THREADS, reduce);
    CHECK(sums[0] == n * (n + 1) * (2 * n + 1) / 6);
    printf("threads64: sum of %lu squares %lu\n", n + 1, sums[0]);
    return 0;
}
