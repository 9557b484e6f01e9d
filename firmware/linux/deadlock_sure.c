/* Two threads that hold one lock each and wait for the other's, in every run; main waits for both. */
#include "guest.h"

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_hold_one;

static void *lock_both(void *argument) {
    pthread_mutex_t *mine = argument ? &first : &second, *other = argument ? &second : &first;
    pthread_mutex_lock(mine);
    pthread_barrier_wait(&both_hold_one);
    pthread_mutex_lock(other);
    return NULL;
}

int main(void) {
    CHECK(pthread_barrier_init(&both_hold_one, NULL, 2) == 0);
    printf("deadlock_sure: start\n");
    fflush(stdout);
    run_threads(2, lock_both);
    return 1;
}
