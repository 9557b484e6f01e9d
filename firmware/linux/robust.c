/* Robust mutexes: a thread ends while it holds some; the next owner is told, and repairs, or fails to. */
#include "guest.h"

#define LOCKS 5

static pthread_mutex_t locks[LOCKS], abandoned;
static pthread_barrier_t held;

static void initialise(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0);
}

static void *die_with_locks(void *argument) {
    for (int i = 0; i < LOCKS; i++)
        CHECK(pthread_mutex_lock(&locks[i]) == 0);
    CHECK(pthread_mutex_lock(&abandoned) == 0);
    pthread_barrier_wait(&held);
    sleep_ms(5); /* main waits for a lock meanwhile */
    return argument;
}

int main(void) {
    for (int i = 0; i < LOCKS; i++)
        initialise(&locks[i]);
    initialise(&abandoned);
    CHECK(pthread_barrier_init(&held, NULL, 2) == 0);
    pthread_t owner = start(die_with_locks, NULL);
    pthread_barrier_wait(&held);
    for (int i = 0; i < LOCKS; i++) {
        CHECK(pthread_mutex_lock(&locks[i]) == EOWNERDEAD);
        CHECK(pthread_mutex_consistent(&locks[i]) == 0);
        CHECK(pthread_mutex_unlock(&locks[i]) == 0);
        CHECK(pthread_mutex_lock(&locks[i]) == 0 && pthread_mutex_unlock(&locks[i]) == 0);
    }
    join(owner);
    CHECK(pthread_mutex_trylock(&abandoned) == EOWNERDEAD);
    CHECK(pthread_mutex_unlock(&abandoned) == 0); /* not made consistent */
    CHECK(pthread_mutex_lock(&abandoned) == ENOTRECOVERABLE);
    printf("robust: owner died %d times, not recoverable 1\n", LOCKS + 1);
    return 0;
}
