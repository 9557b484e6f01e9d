/* A table under a read-write lock: 4 threads look up, and every eighth time they change an entry and its
 * checksum. Argument: rounds of each thread. */
#include "guest.h"
#include <stdlib.h>

#define THREADS 4
#define ENTRIES 16

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile long table[ENTRIES], checksum;
static long rounds, writes;

static void *use(void *argument) {
    unsigned long state = 2 * (unsigned long)argument + 1;
    for (long round = 0; round < rounds; round++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        long entry = (long)(state >> 33) % ENTRIES;
        if ((state >> 60) % 8 == 0) {
            CHECK(pthread_rwlock_wrlock(&lock) == 0);
            long value = (long)(state >> 40) % 1000;
            checksum += value - table[entry];
            table[entry] = value;
            writes++;
        } else {
            CHECK(pthread_rwlock_rdlock(&lock) == 0);
            long sum = 0;
            for (int i = 0; i < ENTRIES; i++)
                sum += table[i];
            CHECK(sum == checksum);
        }
        CHECK(pthread_rwlock_unlock(&lock) == 0);
    }
    return NULL;
}

int main(int count, char **arguments) {
    rounds = count > 1 ? atol(arguments[1]) : 100;
    run_threads(THREADS, use);
    printf("rwlock_table: rounds %ld writes %ld\n", THREADS * rounds, writes);
    return 0;
}
