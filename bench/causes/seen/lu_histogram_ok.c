/* correct twin of lu_histogram: the lock belongs to the bin */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define WORKERS 3
#define BINS 4
#define PER 12

static unsigned bins[BINS];
static pthread_mutex_t locks[BINS];
static unsigned samples[WORKERS * PER];
static atomic_uint largest;

static __attribute__((noinline)) void note_largest(unsigned v)
{
    unsigned old = atomic_load(&largest);
    while (v > old && !atomic_compare_exchange_weak(&largest, &old, v))
        ;
}

static void count(int worker, unsigned v)
{
    int bin = v / 25 % BINS;
    pthread_mutex_t *l = &locks[bin];

    (void)worker;
    pthread_mutex_lock(l);
    unsigned n = bins[bin];
    note_largest(v);
    bins[bin] = n + 1;
    pthread_mutex_unlock(l);
}

static void *worker(void *arg)
{
    int w = (int)(long)arg;
    for (int i = 0; i < PER; i++)
        count(w, samples[w * PER + i]);
    return NULL;
}

int main(void)
{
    pthread_t t[WORKERS];
    unsigned sum = 0, x = 17;
    for (int i = 0; i < BINS; i++)
        pthread_mutex_init(&locks[i], NULL);
    for (int i = 0; i < WORKERS * PER; i++)
        samples[i] = (x = (x * 37 + 11) % 101);
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < BINS; i++)
        sum += bins[i];
    if (sum != WORKERS * PER) {
        fprintf(stderr, "%u of %u samples counted\n", sum, WORKERS * PER);
        return 2;
    }
    return 0;
}
