/* A mutex with priority inheritance: works, or is refused when it is made. */
#include "guest.h"

#define ROUNDS 50

static pthread_mutex_t mutex;
static long count;

static void *lock_and_count(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        count++;
        sched_yield();
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return argument;
}

int main(void) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    int result = pthread_mutex_init(&mutex, &attributes);
    if (result == ENOTSUP) {
        printf("pi_try: refused\n");
        return 3;
    }
    CHECK(result == 0);
    run_threads(4, lock_and_count);
    CHECK(count == 4 * ROUNDS);
    printf("pi_try: count %ld\n", count);
    return 0;
}
