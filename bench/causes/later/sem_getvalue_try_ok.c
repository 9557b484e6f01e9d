/* correct twin of sem_getvalue_try: the loop tries to take a slot and goes on when there is none */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#define SLOTS 2
#define FLUSHERS 2
#define FLUSHES 2
#define OWN_WRITES 4
#define ALL (FLUSHERS * FLUSHES + OWN_WRITES)

struct io {
    int bytes;
    sem_t *done;                        /* whom to tell, or NULL */
};

static sem_t slots;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct io pending[SLOTS];
static int n_pending;

static void submit(int bytes, sem_t *done)
{
    pthread_mutex_lock(&mutex);
    pending[n_pending].bytes = bytes;
    pending[n_pending].done = done;
    n_pending++;
    pthread_mutex_unlock(&mutex);
}

static int reap(int *bytes)
{
    struct io io;
    pthread_mutex_lock(&mutex);
    if (n_pending == 0) {
        pthread_mutex_unlock(&mutex);
        return 0;
    }
    io = pending[--n_pending];
    pthread_mutex_unlock(&mutex);
    *bytes += io.bytes;
    sem_post(&slots);
    if (io.done)
        sem_post(io.done);
    return 1;
}

static int try_slot(void)
{
    return sem_trywait(&slots) == 0;
}

static int total_bytes;

static void *event_loop(void *arg)
{
    int written = 0, reaped = 0;
    (void)arg;
    while (reaped < ALL) {
        if (written < OWN_WRITES && try_slot()) {
            submit(100 + written, NULL);
            written++;
        }
        while (reap(&total_bytes))
            reaped++;
        sched_yield();
    }
    return NULL;
}

static void *flusher(void *arg)
{
    int id = *(int *)arg;
    sem_t done;
    sem_init(&done, 0, 0);
    for (int i = 0; i < FLUSHES; i++) {
        sem_wait(&slots);
        submit(1000 * (id + 1), &done);
        sem_wait(&done);
    }
    return NULL;
}

int main(void)
{
    pthread_t l, f[FLUSHERS];
    int id[FLUSHERS], expected = 0;
    for (int i = 0; i < OWN_WRITES; i++)
        expected += 100 + i;
    sem_init(&slots, 0, SLOTS);
    for (int i = 0; i < FLUSHERS; i++) {
        id[i] = i;
        expected += FLUSHES * 1000 * (i + 1);
        pthread_create(&f[i], NULL, flusher, &id[i]);
    }
    pthread_create(&l, NULL, event_loop, NULL);
    for (int i = 0; i < FLUSHERS; i++)
        pthread_join(f[i], NULL);
    pthread_join(l, NULL);
    printf("%d bytes of %d\n", total_bytes, expected);
    return total_bytes != expected;
}
