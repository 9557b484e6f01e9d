/* Mutexes with priority inheritance, whose waiters the kernel keeps: many threads, try and timed forms, a lock
 * taken twice, two locks in a circle, an owner that dies, and a signal to one that waits. */
#include "guest.h"
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#define ROUNDS 50

static pthread_mutex_t mutex, others[2];
static pthread_barrier_t both;
static unsigned words[2];
static long count;
static volatile sig_atomic_t signals;

static void make(pthread_mutex_t *made, int kind, int robust) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, kind) == 0);
    CHECK(pthread_mutexattr_setrobust(&attributes, robust) == 0);
    CHECK(pthread_mutex_init(made, &attributes) == 0);
}

static void *lock_and_count(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        count++;
        sched_yield();
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return argument;
}

static void *try_in_vain(void *argument) {
    struct timespec soon = time_from_now(CLOCK_REALTIME, 2);
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    CHECK(pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    return argument;
}

static void check_errors(void) {
    make(&mutex, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK);
    join(start(try_in_vain, NULL));
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    make(&mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

static long futex(unsigned *word, int operation) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
}

/* One of the two comes last and is told of the circle. */
static void *lock_crosswise(void *argument) {
    long mine = (long)argument, refused;
    CHECK(futex(&words[mine], FUTEX_LOCK_PI) == 0 && (words[mine] & FUTEX_TID_MASK) == (unsigned)gettid());
    pthread_barrier_wait(&both);
    refused = futex(&words[!mine], FUTEX_LOCK_PI);
    CHECK(refused == 0 || errno == EDEADLK);
    if (refused == 0)
        CHECK(futex(&words[!mine], FUTEX_UNLOCK_PI) == 0);
    CHECK(futex(&words[mine], FUTEX_UNLOCK_PI) == 0);
    return (void *)-refused;
}

static void check_circle(void) {
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK_FAILS(futex(&words[0], FUTEX_UNLOCK_PI), EPERM);
    words[0] = 0x3ffffff0;
    CHECK_FAILS(futex(&words[0], FUTEX_LOCK_PI), ESRCH);
    words[0] = 0;
    pthread_t first = start(lock_crosswise, (void *)0), second = start(lock_crosswise, (void *)1);
    CHECK((long)join(first) + (long)join(second) == 1);
    CHECK(words[0] == 0 || words[0] == FUTEX_WAITERS);
}

static void *die_with_it(void *argument) {
    CHECK(pthread_mutex_lock(&others[0]) == 0);
    pthread_barrier_wait(&both);
    sleep_ms(2);
    return argument;
}

static void check_death(void) {
    make(&others[0], PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
    pthread_t thread = start(die_with_it, NULL);
    pthread_barrier_wait(&both);
    CHECK(pthread_mutex_lock(&others[0]) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&others[0]) == 0 && pthread_mutex_unlock(&others[0]) == 0);
    join(thread);
    thread = start(die_with_it, NULL);
    pthread_barrier_wait(&both);
    join(thread);
    CHECK(pthread_mutex_lock(&others[0]) == EOWNERDEAD && pthread_mutex_unlock(&others[0]) == 0);
    CHECK(pthread_mutex_lock(&others[0]) == ENOTRECOVERABLE);
}

static void on_signal(int number) {
    signals += number == SIGUSR1;
}

static void *wait_for_it(void *argument) {
    CHECK(futex(&words[0], FUTEX_LOCK_PI) == 0 && futex(&words[0], FUTEX_UNLOCK_PI) == 0);
    return argument;
}

/* A handler runs, and then the thread waits on, without SA_RESTART too. */
static void check_signal(void) {
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    words[0] = 0;
    CHECK(futex(&words[0], FUTEX_LOCK_PI) == 0);
    pthread_t thread = start(wait_for_it, NULL);
    while (!(*(volatile unsigned *)&words[0] & FUTEX_WAITERS))
        sleep_ms(1);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (!signals)
        sleep_ms(1);
    CHECK(futex(&words[0], FUTEX_UNLOCK_PI) == 0);
    join(thread);
    CHECK(signals == 1);
}

int main(void) {
    make(&mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
    run_threads(4, lock_and_count);
    CHECK(count == 4 * ROUNDS);
    check_errors();
    check_circle();
    check_death();
    check_signal();
    printf(PROGRAM ": count %ld, errors, a circle, a death, a signal\n", count);
    return 0;
}
