/* correct twin of dl_wakeup: the flag is set under the lock, and the worker checks it in a loop */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    atomic_int ready;
    int waited;
};

static struct gate gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
static int table[32];
static atomic_int finished;

static void wait_ready(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (!atomic_load(&g->ready)) {
        g->waited++;
        pthread_cond_wait(&g->opened, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

static void open_gate(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    atomic_store(&g->ready, 1);
    pthread_cond_broadcast(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

static void *worker(void *arg)
{
    int sum = 0;
    wait_ready(&gate);
    for (int i = 0; i < 32; i++)
        sum += table[i];
    *(int *)arg = sum;
    atomic_fetch_add(&finished, 1);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    int sum[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, worker, &sum[i]);
    for (int i = 0; i < 32; i++)
        table[i] = i * i % 13;
    open_gate(&gate);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    return sum[0] != sum[1] || atomic_load(&finished) != 2;
}
