/* correct twin of ord_store: main joins the worker before it closes the store */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define JOBS 8

struct store { atomic_int open; atomic_int committed; };
struct queue { pthread_mutex_t lock; int jobs[JOBS], head, tail; };

static struct queue queue = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct store store;
static atomic_int rejected;

static int next_job(struct queue *q)
{
    int job = 0;
    pthread_mutex_lock(&q->lock);
    if (q->head != q->tail)
        job = q->jobs[q->head++];
    pthread_mutex_unlock(&q->lock);
    return job;
}

static int digits(int v)
{
    int s = 0;
    for (; v; v /= 10)
        s += v % 10;
    return s;
}

static void commit(struct store *s, int value)
{
    if (atomic_load(&s->open))
        atomic_fetch_add(&s->committed, value);
    else
        atomic_fetch_add(&rejected, 1);
}

static void *drain(void *arg)
{
    struct queue *q = arg;
    for (int job; (job = next_job(q)) != 0; )
        commit(&store, digits(job));
    return NULL;
}

int main(void)
{
    pthread_t t;
    atomic_store(&store.open, 1);
    for (int i = 0; i < JOBS; i++)
        queue.jobs[queue.tail++] = 100 + 37 * i;
    pthread_create(&t, NULL, drain, &queue);
    drain(&queue);
    pthread_join(t, NULL);
    atomic_store(&store.open, 0);
    if (atomic_load(&rejected))
        printf("%d jobs rejected, %d committed\n", atomic_load(&rejected), atomic_load(&store.committed));
    return atomic_load(&rejected) != 0;
}
