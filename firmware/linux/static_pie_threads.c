/* Static, at any address: 4 threads count behind a mutex, with thread-local totals. */
#include "guest.h"

#define THREADS 4
#define ROUNDS 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread long own;
static long shared, owned;

static void *count(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        own++;
        pthread_mutex_lock(&lock);
        shared++;
        pthread_mutex_unlock(&lock);
    }
    __atomic_fetch_add(&owned, own, __ATOMIC_SEQ_CST);
    return argument;
}

int main(void) {
    run_threads(THREADS, count);
    CHECK(shared == THREADS * ROUNDS && owned == shared && own == 0);
    printf("static_pie_threads: shared %ld owned %ld\n", shared, owned);
    return 0;
}
