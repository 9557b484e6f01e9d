/* Condition variables: a bounded queue between 4 producers and 4 consumers, a broadcast to 8 threads, one
 * signal for one thread, and waits that time out on both clocks. */
#include "guest.h"

#define PRODUCERS 4
#define ITEMS 50
#define SLOTS 8
#define WAITERS 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER, arrived = PTHREAD_COND_INITIALIZER;
static long slots[SLOTS], first, used, taken_sum, taken, waiting, tokens, passed;
static int gate_is_open;

static void *produce(void *argument) {
    for (long item = 1; item <= ITEMS; item++) {
        pthread_mutex_lock(&lock);
        while (used == SLOTS)
            pthread_cond_wait(&not_full, &lock);
        slots[(first + used++) % SLOTS] = (long)argument * 1000 + item;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *consume(void *argument) {
    for (long item = 0; item < ITEMS; item++) {
        pthread_mutex_lock(&lock);
        while (used == 0)
            pthread_cond_wait(&not_empty, &lock);
        taken_sum += slots[first];
        taken++;
        first = (first + 1) % SLOTS;
        used--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

static void *produce_or_consume(void *argument) {
    long number = (long)argument;
    return number < PRODUCERS ? produce((void *)number) : consume(argument);
}

static void *wait_for_gate(void *argument) {
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_signal(&arrived);
    while (!gate_is_open)
        pthread_cond_wait(&opened, &lock);
    passed++;
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *take_token(void *argument) {
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_signal(&arrived);
    while (tokens == 0)
        pthread_cond_wait(&opened, &lock);
    tokens--;
    passed++;
    pthread_mutex_unlock(&lock);
    return argument;
}

/* Start WAITERS threads and return once all of them wait; the lock is held. */
static void start_waiters(pthread_t *threads, void *(*body)(void *)) {
    waiting = passed = 0;
    for (long i = 0; i < WAITERS; i++)
        threads[i] = start(body, NULL);
    pthread_mutex_lock(&lock);
    while (waiting < WAITERS)
        pthread_cond_wait(&arrived, &lock);
}

static void open_by_broadcast(void) {
    pthread_t threads[WAITERS];
    start_waiters(threads, wait_for_gate);
    gate_is_open = 1;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WAITERS; i++)
        join(threads[i]);
    CHECK(passed == WAITERS);
}

static void pass_tokens_one_by_one(void) {
    pthread_t threads[WAITERS];
    start_waiters(threads, take_token);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WAITERS; i++) {
        pthread_mutex_lock(&lock);
        tokens++;
        pthread_cond_signal(&opened);
        pthread_mutex_unlock(&lock);
    }
    for (int i = 0; i < WAITERS; i++)
        join(threads[i]);
    CHECK(passed == WAITERS && tokens == 0);
}

static void time_out(clockid_t clock) {
    pthread_condattr_t attributes;
    pthread_cond_t never;
    CHECK(pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, clock) == 0);
    CHECK(pthread_cond_init(&never, &attributes) == 0);
    struct timespec until = time_from_now(clock, 10);
    pthread_mutex_lock(&lock);
    int result;
    while ((result = pthread_cond_timedwait(&never, &lock, &until)) == 0)
        ;
    CHECK(result == ETIMEDOUT);
    CHECK(now(clock) >= until.tv_sec * SECOND + until.tv_nsec);
    pthread_mutex_unlock(&lock);
    CHECK(pthread_cond_destroy(&never) == 0);
}

int main(void) {
    run_threads(2 * PRODUCERS, produce_or_consume);
    CHECK(used == 0 && taken == PRODUCERS * ITEMS);
    CHECK(taken_sum == 1000 * ITEMS * 6 + PRODUCERS * (ITEMS * (ITEMS + 1) / 2));
    open_by_broadcast();
    pass_tokens_one_by_one();
    time_out(CLOCK_REALTIME);
    time_out(CLOCK_MONOTONIC);
    printf("condvars: items %ld sum %ld, broadcast to %d, signals %d, time-outs 2\n", taken, taken_sum, WAITERS,
           WAITERS);
    return 0;
}
