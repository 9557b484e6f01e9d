/* correct twin of mv_mean: sum and count are changed and read under one lock */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct counter { pthread_mutex_t lock; long value; };
struct stats { struct counter count, sum; atomic_long largest; };

static struct stats stats = {
    { PTHREAD_MUTEX_INITIALIZER, 0 }, { PTHREAD_MUTEX_INITIALIZER, 0 }, 0 };
static pthread_mutex_t both = PTHREAD_MUTEX_INITIALIZER;

static void counter_add(struct counter *c, long v)
{
    pthread_mutex_lock(&c->lock);
    c->value += v;
    pthread_mutex_unlock(&c->lock);
}

static long counter_get(struct counter *c)
{
    pthread_mutex_lock(&c->lock);
    long v = c->value;
    pthread_mutex_unlock(&c->lock);
    return v;
}

static void sample(struct stats *s, long v)
{
    long max = atomic_load(&s->largest);
    while (v > max && !atomic_compare_exchange_weak(&s->largest, &max, v))
        ;
    pthread_mutex_lock(&both);
    counter_add(&s->count, 1);
    counter_add(&s->sum, v);
    pthread_mutex_unlock(&both);
}

static int report(struct stats *s)
{
    pthread_mutex_lock(&both);
    long sum = counter_get(&s->sum);
    long n = counter_get(&s->count);
    pthread_mutex_unlock(&both);
    return sum < 40 * n || sum > 60 * n ? -1 : n ? (int)(sum / n) : 50;
}

static void *probe(void *arg)
{
    for (long i = 0; i < 5; i++)
        sample(&stats, 40 + 5 * i);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    int bad = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, probe, NULL);
    for (int i = 0; i < 3; i++)
        bad += report(&stats) < 0;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    if (bad)
        printf("%d reports out of range\n", bad);
    return bad != 0;
}
