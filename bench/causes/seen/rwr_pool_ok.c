/* correct twin of rwr_pool: the number is checked under the lock */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define N 3

struct buffer { int owner; char bytes[60]; };
struct pool {
    pthread_mutex_t lock;
    atomic_uint nfree;
    struct buffer *free[N];
};

static struct buffer buffers[N];
static struct pool pool = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_int exhausted;

static struct buffer *take(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    if (atomic_load(&p->nfree) == 0) {
        pthread_mutex_unlock(&p->lock);
        return NULL;
    }
    unsigned top = atomic_load(&p->nfree) - 1;
    struct buffer *b = p->free[top];
    atomic_store(&p->nfree, top);
    pthread_mutex_unlock(&p->lock);
    return b;
}

static void give(struct pool *p, struct buffer *b)
{
    pthread_mutex_lock(&p->lock);
    p->free[atomic_load(&p->nfree)] = b;
    atomic_fetch_add(&p->nfree, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *session(void *arg)
{
    int id = (int)(long)arg;
    struct buffer *a = take(&pool), *b = take(&pool);
    if (a) a->owner = id;
    if (b) b->owner = id;
    if (!a || !b) atomic_fetch_add(&exhausted, 1);
    if (b) give(&pool, b);
    if (a) give(&pool, a);
    return NULL;
}

int main(void)
{
    pthread_t t[3];
    for (int i = 0; i < N; i++)
        give(&pool, &buffers[i]);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, session, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    printf("%u free, %d sessions short\n", atomic_load(&pool.nfree), atomic_load(&exhausted));
    return atomic_load(&pool.nfree) != N;
}
