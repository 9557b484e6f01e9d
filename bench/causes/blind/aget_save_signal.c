/* class: signal handler beside threads; fails by: exit; cause: the handler saves bwritten and the threads' offsets without
 * the lock under which a download thread is changing them, and saves a state in which they do not agree.
 * Modelled on Aget 0.4 (Resume.c / Signal.c, bwritten saved on SIGINT). */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#define NTHREADS 2

struct thread_data {
    volatile long offset;
};

static struct thread_data wthread[NTHREADS];
static volatile long bwritten;
static pthread_mutex_t bwritten_mutex = PTHREAD_MUTEX_INITIALIZER;
static long saved_offset[NTHREADS], saved_bwritten;

static void save_log(void)
{
    saved_bwritten = bwritten; // CAUSE
    for (int i = 0; i < NTHREADS; i++)
        saved_offset[i] = wthread[i].offset; // CAUSE
}

static void on_signal(int sig)
{
    (void)sig;
    save_log();
}

static void *http_get(void *arg)
{
    struct thread_data *td = arg;
    for (int i = 1; i <= 3; i++) {
        pthread_mutex_lock(&bwritten_mutex);
        td->offset += 100 * i; // CAUSE
        bwritten += 100 * i; // CAUSE
        pthread_mutex_unlock(&bwritten_mutex);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[NTHREADS];
    struct sigaction sa = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &sa, NULL);
    for (int i = 0; i < NTHREADS; i++)
        pthread_create(&t[i], NULL, http_get, &wthread[i]);
    pthread_kill(pthread_self(), SIGUSR1);
    for (int i = 0; i < NTHREADS; i++)
        pthread_join(t[i], NULL);
    long sum = 0;
    for (int i = 0; i < NTHREADS; i++)
        sum += saved_offset[i];
    printf("saved %ld, offsets %ld, written %ld\n", saved_bwritten, sum, bwritten);
    return saved_bwritten != sum || bwritten != 1200;
}
