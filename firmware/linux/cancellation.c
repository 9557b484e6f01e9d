/* Cancelled threads: deferred, at once, while waiting for a condition, while reading a pipe, while asleep,
 * and while cancellation is off; cleanup handlers run in reverse order; pthread_exit runs them too. */
#include "guest.h"
#include <semaphore.h>

static sem_t ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int nothing_to_read[2];
static volatile long spins;
static __thread char order[8];
static char last_order[8];
static int lock_was_ours, switched_on;

static void note(void *letter) {
    order[strlen(order)] = *(char *)letter;
    memcpy(last_order, order, sizeof last_order);
}

static void unlock(void *argument) {
    lock_was_ours = pthread_mutex_unlock(argument) == 0;
}

static void *spin_deferred(void *argument) {
    pthread_cleanup_push(note, "c");
    pthread_cleanup_push(note, "b");
    pthread_cleanup_push(note, "a");
    sem_post(&ready);
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return argument;
}

static void *spin_asynchronous(void *argument) {
    pthread_cleanup_push(note, "x");
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    sem_post(&ready);
    for (;;)
        spins = spins + 1;
    pthread_cleanup_pop(0);
    return argument;
}

static void *wait_for_condition(void *argument) {
    CHECK(pthread_mutex_lock(&lock) == 0);
    pthread_cleanup_push(unlock, &lock);
    sem_post(&ready);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(1);
    return argument;
}

static void *read_pipe(void *argument) {
    char byte;
    pthread_cleanup_push(note, "r");
    sem_post(&ready);
    CHECK(read(nothing_to_read[0], &byte, 1) == 1); /* never comes back */
    pthread_cleanup_pop(0);
    return argument;
}

static void *sleep_long(void *argument) {
    pthread_cleanup_push(note, "s");
    sem_post(&ready);
    sleep(100000);
    pthread_cleanup_pop(0);
    return argument;
}

/* The request must wait until cancellation is on again. */
static void *switched_off(void *argument) {
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    sem_post(&ready);
    sleep_ms(5);
    pthread_testcancel();
    switched_on = 1;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    for (;;)
        pthread_testcancel();
    return argument;
}

static NOINLINE void leave(void *argument) {
    pthread_cleanup_push(note, "2");
    pthread_exit(argument);
    pthread_cleanup_pop(0);
}

static void *exit_deep(void *argument) {
    pthread_cleanup_push(note, "1");
    leave(argument);
    pthread_cleanup_pop(0);
    return NULL;
}

/* Cancel a thread of `body` once it is ready; its cleanup handlers must have noted `expected`. */
static void cancel(void *(*body)(void *), const char *expected) {
    memset(last_order, 0, sizeof last_order);
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&ready) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    CHECK(strcmp(last_order, expected) == 0);
}

int main(void) {
    CHECK(sem_init(&ready, 0, 0) == 0 && pipe(nothing_to_read) == 0);
    cancel(spin_deferred, "abc");
    cancel(spin_asynchronous, "x");
    cancel(wait_for_condition, "");
    CHECK(lock_was_ours && pthread_mutex_trylock(&lock) == 0);
    cancel(read_pipe, "r");
    cancel(sleep_long, "s");
    cancel(switched_off, "");
    CHECK(switched_on);
    CHECK(join(start(exit_deep, (void *)42L)) == (void *)42L && strcmp(last_order, "21") == 0);
    printf("cancellation: cancelled 6, cleaned up in order, left by pthread_exit 1\n");
    return 0;
}
