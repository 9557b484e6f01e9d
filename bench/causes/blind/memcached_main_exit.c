/* class: main exits while others work; fails by: exit; cause: main waits for the queue of log entries to be empty, not for
 * the logger thread to have written the last entry that it took, and exits.
 * Modelled on Memcached's logger thread and on MySQL's shutdown beside the binlog dump thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ENTRIES 4

struct logger {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int entry[ENTRIES];
    int tail, head;
};

static struct logger lg = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };
static pthread_mutex_t file_mutex = PTHREAD_MUTEX_INITIALIZER;
static int file[ENTRIES];
static int written;

static void *logger_thread(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lg.mutex);
    for (;;) {
        while (lg.head == lg.tail)
            pthread_cond_wait(&lg.cond, &lg.mutex);
        int e = lg.entry[lg.head++]; // CAUSE
        pthread_cond_broadcast(&lg.cond);
        pthread_mutex_unlock(&lg.mutex);
        pthread_mutex_lock(&file_mutex);
        file[written] = e; // CAUSE
        written++; // CAUSE
        pthread_mutex_unlock(&file_mutex);
        pthread_mutex_lock(&lg.mutex);
    }
    return NULL;
}

static void check_file(void)
{
    pthread_mutex_lock(&file_mutex);
    int lost = 0;
    for (int i = 0; i < ENTRIES; i++)
        lost += file[i] != 10 * i + 10;
    pthread_mutex_unlock(&file_mutex);
    if (lost)
        _exit(1);
}

int main(void)
{
    pthread_t t;
    atexit(check_file);
    pthread_create(&t, NULL, logger_thread, NULL);
    pthread_detach(t);
    for (int i = 0; i < ENTRIES; i++) {
        pthread_mutex_lock(&lg.mutex);
        lg.entry[lg.tail++] = 10 * i + 10;
        pthread_cond_broadcast(&lg.cond);
        pthread_mutex_unlock(&lg.mutex);
    }
    pthread_mutex_lock(&lg.mutex);
    while (lg.head < lg.tail) // CAUSE
        pthread_cond_wait(&lg.cond, &lg.mutex);
    pthread_mutex_unlock(&lg.mutex);
    return 0; // CAUSE
}
