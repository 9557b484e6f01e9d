/* Twin of memcached_main_exit: main waits for the entries to have been written. */
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
        int e = lg.entry[lg.head++];
        pthread_cond_broadcast(&lg.cond);
        pthread_mutex_unlock(&lg.mutex);
        pthread_mutex_lock(&file_mutex);
        file[written] = e;
        written++;
        pthread_mutex_unlock(&file_mutex);
        pthread_mutex_lock(&lg.mutex);
        pthread_cond_broadcast(&lg.cond);
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

static int all_written(void)
{
    pthread_mutex_lock(&file_mutex);
    int all = written == ENTRIES;
    pthread_mutex_unlock(&file_mutex);
    return all;
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
    while (!all_written())
        pthread_cond_wait(&lg.cond, &lg.mutex);
    pthread_mutex_unlock(&lg.mutex);
    return 0;
}
