/* class: signals between threads (checked, then paused); fails by: deadlock; cause: a worker looks at the flag that its
 * signal handler sets and then pauses, so that a signal which arrives between the two is handled before the pause
 * begins and the worker and the one who waits for its answer sleep for ever */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define WORKERS 2
#define RELOADS 3

struct worker {
    pthread_t thread;
    int limit;                          /* its own copy of the configuration */
    int reloads;
};

static struct {
    pthread_mutex_t mutex;
    int limit;
} config = { PTHREAD_MUTEX_INITIALIZER, 100 };

static __thread volatile sig_atomic_t hup;
static sem_t ready, applied;

static void on_hup(int sig)
{
    (void)sig;
    hup = 1;
}

static void await_hup(void)
{
    while (!hup)                                  // CAUSE
        pause();                                  // CAUSE
    hup = 0;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    sem_post(&ready);
    for (int i = 0; i < RELOADS; i++) {
        await_hup();
        pthread_mutex_lock(&config.mutex);
        w->limit = config.limit;
        pthread_mutex_unlock(&config.mutex);
        w->reloads++;
        sem_post(&applied);
    }
    return NULL;
}

static void wait_sem(sem_t *s)
{
    while (sem_wait(s) != 0)
        ;
}

int main(void)
{
    static struct worker worker[WORKERS];
    struct sigaction sa;
    int wrong = 0;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_hup;
    sigaction(SIGHUP, &sa, NULL);
    sem_init(&ready, 0, 0);
    sem_init(&applied, 0, 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]);
    for (int i = 0; i < WORKERS; i++)
        wait_sem(&ready);
    for (int r = 1; r <= RELOADS; r++) {
        pthread_mutex_lock(&config.mutex);
        config.limit = 100 + 10 * r;
        pthread_mutex_unlock(&config.mutex);
        for (int i = 0; i < WORKERS; i++)
            pthread_kill(worker[i].thread, SIGHUP);    // CAUSE
        for (int i = 0; i < WORKERS; i++)
            wait_sem(&applied);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(worker[i].thread, NULL);
        if (worker[i].limit != config.limit || worker[i].reloads != RELOADS)
            wrong++;
    }
    printf("limit %d, %d workers behind\n", config.limit, wrong);
    return wrong != 0;
}
