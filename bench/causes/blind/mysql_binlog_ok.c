/* Twin of mysql_binlog: rotation and the test for an open log both hold LOCK_log. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { LOG_CLOSED, LOG_OPENED };

struct binlog {
    atomic_int state;
    int file_no;
    int events;
    pthread_mutex_t LOCK_log;
};

static struct binlog lg = { LOG_OPENED, 1, 0, PTHREAD_MUTEX_INITIALIZER };
static atomic_int committed;

static void log_write(struct binlog *l)
{
    pthread_mutex_lock(&l->LOCK_log);
    if (atomic_load(&l->state) == LOG_OPENED)
        l->events++;
    pthread_mutex_unlock(&l->LOCK_log);
}

static void log_rotate(struct binlog *l)
{
    pthread_mutex_lock(&l->LOCK_log);
    atomic_store(&l->state, LOG_CLOSED);
    l->file_no++;
    atomic_store(&l->state, LOG_OPENED);
    pthread_mutex_unlock(&l->LOCK_log);
}

static void *commit(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&committed, 1);
        log_write(&lg);
    }
    return NULL;
}

static void *flush_logs(void *arg)
{
    (void)arg;
    while (atomic_load(&committed) == 0)
        sched_yield();
    for (int i = 0; i < 2; i++)
        log_rotate(&lg);
    return NULL;
}

int main(void)
{
    pthread_t t[3];
    pthread_create(&t[0], NULL, commit, NULL);
    pthread_create(&t[1], NULL, flush_logs, NULL);
    pthread_create(&t[2], NULL, commit, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    printf("%d events in %d files\n", lg.events, lg.file_no);
    return lg.events != atomic_load(&committed) || lg.file_no != 3;
}
