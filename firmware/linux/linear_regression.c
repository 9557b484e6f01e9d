/* A line through the points of a mapped file, four of two bytes (x, y) to a word: 4 threads take blocks of words
 * from a queue and add five sums for each to the common ones, under one mutex. Argument: kilobytes. */
#include "mapped.h"

#define THREADS 4
#define BLOCKS 512

struct sums {
    long x, y, xx, yy, xy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long size, next_block;
static struct sums total;
static const unsigned long *data;

static void *add(void *argument) {
    for (;;) {
        long block = __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED);
        if (block >= BLOCKS)
            return argument;
        struct sums own = {0};
        long end = size / 8 * (block + 1) / BLOCKS;
        for (long i = size / 8 * block / BLOCKS; i < end; i++) {
            unsigned long word = data[i];
            for (int point = 0; point < 4; point++, word >>= 16) {
                long x = word & 255, y = word >> 8 & 255;
                own.x += x;
                own.y += y;
                own.xx += x * x;
                own.yy += y * y;
                own.xy += x * y;
            }
        }
        CHECK(pthread_mutex_lock(&lock) == 0);
        total.x += own.x;
        total.y += own.y;
        total.xx += own.xx;
        total.yy += own.yy;
        total.xy += own.xy;
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
}

int main(int count, char **arguments) {
    size = (count > 1 ? atol(arguments[1]) : 64) * 1024;
    data = map_pattern(size);
    run_threads(THREADS, add);
    long n = size / 2, slope = n * total.xy - total.x * total.y, over = n * total.xx - total.x * total.x;
    CHECK(over != 0);
    printf("linear_regression: points %ld slope %ld / 1000\n", n, 1000 * slope / over);
    return 0;
}
