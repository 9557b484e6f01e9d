/* A histogram over a mapped file: 4 threads take blocks of words from a queue, count the bytes of one, and add
 * what they counted to the common table, under one mutex. Argument: kilobytes. */
#include "mapped.h"

#define THREADS 4
#define BLOCKS 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long size, next_block, total[256];
static const unsigned long *data;

static void *count(void *argument) {
    for (;;) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        long block = next_block++;
        CHECK(pthread_mutex_unlock(&lock) == 0);
        if (block >= BLOCKS)
            return argument;
        long own[256] = {0}, words = size / 8, end = words * (block + 1) / BLOCKS;
        for (long i = words * block / BLOCKS; i < end; i++) {
            unsigned long word = data[i];
            for (int byte = 0; byte < 8; byte++, word >>= 8)
                own[word & 255]++;
        }
        CHECK(pthread_mutex_lock(&lock) == 0);
        for (int bin = 0; bin < 256; bin++)
            if (own[bin])
                total[bin] += own[bin];
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
}

int main(int count_of, char **arguments) {
    size = (count_of > 1 ? atol(arguments[1]) : 64) * 1024;
    data = map_pattern(size);
    run_threads(THREADS, count);
    long all = 0, most = 0;
    for (int bin = 0; bin < 256; bin++) {
        all += total[bin];
        most = total[bin] > total[most] ? bin : most;
    }
    CHECK(all == size);
    printf("histogram: bytes %ld most of %ld\n", all, most);
    return 0;
}
