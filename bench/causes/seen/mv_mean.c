/* class: multi-variable invariant; fails by: exit; cause: sum and count of the samples are changed and read in two critical sections each, so that a report mixes the old value of one with the new value of the other */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct counter { pthread_mutex_t lock; long value; };
struct stats { struct counter count, sum; atomic_long largest; };

static struct stats stats = {
    { PTHREAD_MUTEX_INITIALIZER, 0 }, { PTHREAD_MUTEX_INITIALIZER, 0 }, 0 };

static void counter_add(struct counter *c, long v)
{
    pthread_mutex_lock(&c->lock);
    c->value += v;                                // CAUSE
    pthread_mutex_unlock(&c->lock);
}

static long counter_get(struct counter *c)
{
    pthread_mutex_lock(&c->lock);
    long v = c->value;                            // CAUSE
    pthread_mutex_unlock(&c->lock);
    return v;
}

static void sample(struct stats *s, long v)
{
    long max = atomic_load(&s->largest);
    while (v > max && !atomic_compare_exchange_weak(&s->largest, &max, v))
        ;
    counter_add(&s->count, 1);                    // CAUSE
    counter_add(&s->sum, v);                      // CAUSE
}

static int report(struct stats *s)
{
    long sum = counter_get(&s->sum);              // CAUSE
    long n = counter_get(&s->count);              // CAUSE
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
