/* Twin of glib_lost_wakeup: the producer holds the mutex. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct async_queue {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    atomic_int length;
    int popped;
};

static struct async_queue q = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
static atomic_int work;

static void queue_push(struct async_queue *a)
{
    pthread_mutex_lock(&a->mutex);
    atomic_fetch_add(&a->length, 1);
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->mutex);
}

static void queue_pop(struct async_queue *a)
{
    pthread_mutex_lock(&a->mutex);
    while (atomic_load(&a->length) == 0)
        pthread_cond_wait(&a->cond, &a->mutex);
    atomic_fetch_sub(&a->length, 1);
    a->popped++;
    pthread_mutex_unlock(&a->mutex);
}

static void *producer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 10; k++)
            atomic_fetch_add(&work, k);
        queue_push(&q);
    }
    return NULL;
}

static void *consumer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++)
        queue_pop(&q);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&b, NULL, consumer, NULL);
    pthread_create(&a, NULL, producer, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d popped, %d left, work %d\n", q.popped, atomic_load(&q.length), atomic_load(&work));
    return q.popped != 2 || atomic_load(&work) != 90;
}
