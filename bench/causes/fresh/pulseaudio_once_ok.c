/* correct twin of pulseaudio_once: the once block is marked as done after its function has run */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 3
#define RATES 6

struct once {
    atomic_int done;
    pthread_mutex_t lock;
};

struct resampler { int rate; int taps; };

static struct once once = { 0, PTHREAD_MUTEX_INITIALIZER };
static _Atomic(struct resampler *) table;
static long result[THREADS];
static const int rates[RATES] = { 8000, 16000, 22050, 32000, 44100, 48000 };

static void make_table(void)
{
    struct resampler *r = calloc(RATES, sizeof *r);
    for (int i = 0; i < RATES; i++) {
        r[i].rate = rates[i];
        r[i].taps = rates[i] / 1000;
    }
    atomic_store(&table, r);
}

static void run_once(struct once *o, void (*func)(void))
{
    if (atomic_load(&o->done))
        return;
    pthread_mutex_lock(&o->lock);
    if (!atomic_load(&o->done)) {
        func();
        atomic_store(&o->done, 1);
    }
    pthread_mutex_unlock(&o->lock);
}

static int taps_for(int rate)
{
    run_once(&once, make_table);
    struct resampler *r = atomic_load(&table);
    for (int i = 0; i < RATES; i++)
        if (r[i].rate == rate)
            return r[i].taps;
    return 0;
}

static void *sink_input(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < RATES; i++)
        result[id] += taps_for(rates[(i + id) % RATES]);
    return NULL;
}

int main(void)
{
    pthread_t t[THREADS];
    int bad = 0;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, sink_input, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        bad |= result[i] != 170;
    }
    printf("%s\n", bad ? "wrong taps" : "ok");
    free(table);
    return bad;
}
