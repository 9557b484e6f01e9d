/* Signals and threads that wait: SA_RESTART and EINTR on a pipe, signals for one thread, sigwait,
 * sigtimedwait, sigsuspend, pause, an interval timer, and which thread a process's signal goes to. */
#include "guest.h"
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;
static volatile long handled_by;
static int data[2];
static int interrupted;
static sem_t ready;

static void note(int signal) {
    CHECK(signal > 0);
    handled_by = syscall(SYS_gettid);
    handled++;
}

static void set(int signal, int flags) {
    struct sigaction action = {.sa_handler = note, .sa_flags = flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void *read_byte(void *result) {
    char byte;
    *(long *)result = read(data[0], &byte, 1);
    if (*(long *)result == -1) {
        CHECK(errno == EINTR);
        __atomic_store_n(&interrupted, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void check_restart(void) {
    long result = 0;
    handled = 0;
    set(SIGUSR1, SA_RESTART);
    pthread_t reader = start(read_byte, &result);
    while (handled < 3) {
        int before = handled;
        CHECK(pthread_kill(reader, SIGUSR1) == 0);
        while (handled == before)
            sleep_ms(1);
    }
    CHECK(write(data[1], "x", 1) == 1);
    join(reader);
    CHECK(result == 1);
}

static void check_interruption(void) {
    long result = 0;
    set(SIGUSR1, 0);
    pthread_t reader = start(read_byte, &result);
    while (!__atomic_load_n(&interrupted, __ATOMIC_SEQ_CST)) {
        CHECK(pthread_kill(reader, SIGUSR1) == 0);
        sleep_ms(1);
    }
    join(reader);
    CHECK(result == -1);
}

static void *poll_and_sleep(void *argument) {
    struct pollfd nothing = {.fd = data[0], .events = POLLIN};
    struct timespec long_time = {1000000, 0}, rest;
    CHECK_FAILS(poll(&nothing, 1, -1), EINTR);
    __atomic_store_n(&interrupted, 2, __ATOMIC_SEQ_CST);
    CHECK_FAILS(nanosleep(&long_time, &rest), EINTR);
    CHECK(rest.tv_sec > 900000 && rest.tv_sec <= 1000000);
    __atomic_store_n(&interrupted, 3, __ATOMIC_SEQ_CST);
    return argument;
}

/* poll and nanosleep are never restarted after a handler, whatever SA_RESTART says. */
static void check_never_restarted(void) {
    set(SIGUSR1, SA_RESTART);
    pthread_t sleeper = start(poll_and_sleep, NULL);
    while (__atomic_load_n(&interrupted, __ATOMIC_SEQ_CST) != 3) {
        pthread_kill(sleeper, SIGUSR1);
        sleep_ms(1);
    }
    join(sleeper);
}

static void *wait_for_signals(void *argument) {
    sigset_t set = only(SIGUSR2);
    struct timespec soon = timespec_of(5 * MILLISECOND);
    siginfo_t info;
    int signal;
    CHECK_FAILS(sigtimedwait(&set, &info, &soon), EAGAIN);
    sem_post(&ready);
    CHECK(sigwait(&set, &signal) == 0 && signal == SIGUSR2);
    sem_post(&ready);
    CHECK(sigwaitinfo(&set, &info) == SIGUSR2 && info.si_code == SI_QUEUE && info.si_value.sival_int == 9);
    return argument;
}

/* SIGUSR2 is blocked everywhere. */
static void check_sigwait(void) {
    pthread_t waiter = start(wait_for_signals, NULL);
    CHECK(sem_wait(&ready) == 0 && pthread_kill(waiter, SIGUSR2) == 0);
    CHECK(sem_wait(&ready) == 0);
    CHECK(pthread_sigqueue(waiter, SIGUSR2, (union sigval){.sival_int = 9}) == 0);
    join(waiter);
}

static void *suspend(void *argument) {
    sigset_t none;
    sigemptyset(&none);
    *(long *)argument = syscall(SYS_gettid);
    sem_post(&ready);
    CHECK_FAILS(sigsuspend(&none), EINTR); /* SIGUSR2 stays pending until here */
    return NULL;
}

/* A signal for the process goes to the one thread that does not block it. */
static void check_suspend(void) {
    long tid;
    handled = 0;
    set(SIGUSR2, 0);
    pthread_t suspended = start(suspend, &tid);
    CHECK(sem_wait(&ready) == 0 && kill(getpid(), SIGUSR2) == 0);
    join(suspended);
    CHECK(handled == 1 && handled_by == tid);
}

static void *pause_until_handled(void *argument) {
    *(long *)argument = syscall(SYS_gettid);
    sigset_t set = only(SIGTERM);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    sem_post(&ready);
    while (!handled)
        sleep_ms(1);
    return NULL;
}

static void check_chosen_thread(void) {
    sigset_t set_of_term = only(SIGTERM);
    long tid;
    CHECK(pthread_sigmask(SIG_BLOCK, &set_of_term, NULL) == 0);
    handled = 0;
    set(SIGTERM, 0);
    pthread_t chosen = start(pause_until_handled, &tid);
    CHECK(sem_wait(&ready) == 0 && kill(getpid(), SIGTERM) == 0);
    join(chosen);
    CHECK(handled == 1 && handled_by == tid);
}

static void check_timer(void) {
    struct itimerval soon = {{0, 2000}, {0, 3000}}, off = {{0, 0}, {0, 0}};
    long before = now(CLOCK_MONOTONIC);
    handled = 0;
    set(SIGALRM, 0);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    while (handled < 3)
        CHECK_FAILS(pause(), EINTR);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    CHECK(now(CLOCK_MONOTONIC) - before >= 6 * MILLISECOND);
    CHECK(alarm(100) == 0 && alarm(0) == 100);
}

int main(void) {
    sigset_t set = only(SIGUSR2);
    CHECK(pipe(data) == 0 && sem_init(&ready, 0, 0) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    check_restart();
    check_interruption();
    check_never_restarted();
    check_sigwait();
    check_suspend();
    check_chosen_thread();
    check_timer();
    printf("signal_waits: restarted, interrupted, waited, suspended, chosen, timed\n");
    return 0;
}
