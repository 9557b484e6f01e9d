/* class: signal handler, lost signal (check then pause); fails by: hang; cause: the shell tests gotsigchld, the signal of the last job comes in and sets it, and only then the shell calls pause, which no signal will end */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { JOBS = 3, STEPS = 40 };
enum state { RUNNING, DONE, REAPED };

struct job {
    unsigned id;
    enum state state;
    int status;
};

static struct jobtab {
    pthread_mutex_t lock;
    struct job job[JOBS];
    unsigned running;
} jobtab = { .lock = PTHREAD_MUTEX_INITIALIZER, .running = JOBS };

static volatile sig_atomic_t gotsigchld;
static pthread_t shell_tid;
static sigset_t oldmask;

static void onsig(int signo) {
    (void)signo;
    gotsigchld = 1; // CAUSE
}

static void waitproc(void) {
    while (!gotsigchld) { // CAUSE
        pause(); // CAUSE
    }
    gotsigchld = 0;
}

static unsigned reap_jobs(int *status) {
    unsigned left;
    pthread_mutex_lock(&jobtab.lock);
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *j = &jobtab.job[i];
        if (j->state == DONE) {
            j->state = REAPED;
            jobtab.running--;
            *status += j->status;
        }
    }
    left = jobtab.running;
    pthread_mutex_unlock(&jobtab.lock);
    return left;
}

static void *shell(void *arg) {
    int *status = arg;
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &s, &oldmask);
    while (reap_jobs(status) > 0)
        waitproc();
    return NULL;
}

static void *job_main(void *arg) {
    struct job *j = arg;
    int h = 0;
    for (unsigned i = 0; i < STEPS * (j->id + 1); i++)
        h = (h * 7 + (int)i) % 101;
    pthread_mutex_lock(&jobtab.lock);
    j->status = h >= 0 ? 1 : 0;
    j->state = DONE;
    pthread_mutex_unlock(&jobtab.lock);
    pthread_kill(shell_tid, SIGUSR1);
    return NULL;
}

int main(void) {
    pthread_t t[JOBS];
    struct sigaction sa;
    sigset_t block;
    int status = 0;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = onsig;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGUSR1, &sa, NULL);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &block, NULL);
    for (unsigned i = 0; i < JOBS; i++)
        jobtab.job[i].id = i;
    pthread_create(&shell_tid, NULL, shell, &status);
    for (unsigned i = 0; i < JOBS; i++)
        pthread_create(&t[i], NULL, job_main, &jobtab.job[i]);
    for (int i = 0; i < JOBS; i++)
        pthread_join(t[i], NULL);
    pthread_join(shell_tid, NULL);
    printf("reaped %d\n", status);
    return status == JOBS && jobtab.running == 0 ? 0 : 1;
}
