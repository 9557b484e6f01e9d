/* class: flag reset after the look for work (lost wake-up); fails by: deadlock;
 * cause: the loop drains the queue and then resets the pending flag; a sender that pushes its request after the drain
 * and tests the flag before the reset posts no wake-up, and the loop sleeps for ever with a request in the queue. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SENDERS 2
#define PER_SENDER 15

struct req {
    int value;
    struct req *next;
};

struct async_handle {
    atomic_int pending;
    sem_t wakeup;
    pthread_mutex_t lock;
    struct req *queue;
};

static struct async_handle h = { .lock = PTHREAD_MUTEX_INITIALIZER };
static long handled_sum;
static int handled;

static void async_send(struct async_handle *a)
{
    if (atomic_exchange(&a->pending, 1) == 0) // CAUSE
        sem_post(&a->wakeup);
}

static void submit(struct async_handle *a, int value)
{
    struct req *r = malloc(sizeof *r);

    r->value = value;
    pthread_mutex_lock(&a->lock);
    r->next = a->queue;
    a->queue = r; // CAUSE
    pthread_mutex_unlock(&a->lock);
    async_send(a);
}

static void drain_queue(struct async_handle *a)
{
    struct req *list, *next;

    pthread_mutex_lock(&a->lock);
    list = a->queue;
    a->queue = NULL; // CAUSE
    pthread_mutex_unlock(&a->lock);
    for (; list; list = next) {
        next = list->next;
        handled_sum += list->value;
        handled++;
        free(list);
    }
}

static void *event_loop(void *arg)
{
    struct async_handle *a = arg;

    while (handled < SENDERS * PER_SENDER) {
        sem_wait(&a->wakeup);
        drain_queue(a);
        atomic_store(&a->pending, 0); // CAUSE
    }
    return NULL;
}

static void *sender(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 1; i <= PER_SENDER; i++)
        submit(&h, i * 100 + id);
    return NULL;
}

int main(void)
{
    pthread_t loop, s[SENDERS];
    long want = 0;

    sem_init(&h.wakeup, 0, 0);
    pthread_create(&loop, NULL, event_loop, &h);
    for (long i = 0; i < SENDERS; i++)
        pthread_create(&s[i], NULL, sender, (void *)i);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(s[i], NULL);
    pthread_join(loop, NULL);
    for (int id = 0; id < SENDERS; id++)
        for (int i = 1; i <= PER_SENDER; i++)
            want += i * 100 + id;
    if (handled_sum != want) {
        printf("FAIL: handled sum %ld, expected %ld\n", handled_sum, want);
        return 1;
    }
    printf("ok: %d requests\n", handled);
    return 0;
}
