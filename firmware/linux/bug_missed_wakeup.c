/* A seeded bug: main looks at the flag before it takes the lock. When the worker sets the flag and signals in
 * between, nobody waits yet, the signal is lost, and main waits for ever.
 *
 * GOOD: main looks at the flag under the lock. */
#include "guest.h"

#define ROUNDS 2

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int ready;

static void *announce(void *argument) {
    pthread_mutex_lock(&lock);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return argument;
}

static NOINLINE void wait_until_ready(void) {
#ifdef GOOD
    pthread_mutex_lock(&lock);
    while (!ready)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
#else
    while (!ready) { /* the bug: looked at without the lock */
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
#endif
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        ready = 0;
        pthread_t announcer = start(announce, NULL);
        wait_until_ready();
        join(announcer);
    }
    printf(PROGRAM ": rounds %d\n", ROUNDS);
    return 0;
}
