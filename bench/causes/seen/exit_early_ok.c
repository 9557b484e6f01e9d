/* correct twin of exit_early: main joins the logger before it exits */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 8

static const char *queue[SLOTS];
static sem_t items;
static unsigned head, tail;
static atomic_int pending, written;
static char file[256];

static void log_line(const char *text)
{
    atomic_fetch_add(&pending, 1);
    queue[tail++ % SLOTS] = text;
    sem_post(&items);
}

static void write_line(const char *text)
{
    strcat(strcat(file, text), "\n");
    atomic_fetch_add(&written, 1);
}

static void *logger(void *arg)
{
    for (;;) {
        sem_wait(&items);
        const char *text = queue[head++ % SLOTS];
        if (text == NULL)
            return NULL;
        atomic_fetch_sub(&pending, 1);
        write_line(text);
    }
}

static void close_log(void)
{
    if (atomic_load(&written) != 5)
        _exit(4);
}

int main(void)
{
    static const char *lines[5] = { "start", "open db", "load users", "close db", "bye" };
    pthread_t t;
    sem_init(&items, 0, 0);
    atexit(close_log);
    pthread_create(&t, NULL, logger, NULL);
    for (int i = 0; i < 5; i++)
        log_line(lines[i]);
    log_line(NULL);
    pthread_join(t, NULL);
    return 0;
}
