/* class: main exits while a thread still works; fails by: exit; cause: main waits only until the logger has taken all lines and exits, and the exit handler checks the log before the detached logger has written the last line */
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
    atomic_fetch_add(&written, 1);                // CAUSE
}

static void *logger(void *arg)
{
    for (;;) {
        sem_wait(&items);
        const char *text = queue[head++ % SLOTS];
        if (text == NULL)
            return NULL;
        atomic_fetch_sub(&pending, 1);            // CAUSE
        write_line(text);
    }
}

static void close_log(void)
{
    if (atomic_load(&written) != 5)               // CAUSE
        _exit(4);
}

int main(void)
{
    static const char *lines[5] = { "start", "open db", "load users", "close db", "bye" };
    pthread_t t;
    sem_init(&items, 0, 0);
    atexit(close_log);
    pthread_create(&t, NULL, logger, NULL);
    pthread_detach(t);
    for (int i = 0; i < 5; i++)
        log_line(lines[i]);
    while (atomic_load(&pending) > 0)             // CAUSE
        sched_yield();
    return 0;                                     // CAUSE
}
