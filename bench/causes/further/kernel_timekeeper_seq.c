/* class: self-made seqlock (reader does not wait for an even count), torn multi-field read; fails by: wrong result;
 * cause: the updater has made the count odd and stored only one of the two fields; a reader begins and ends within
 * that time, sees the same (odd) count twice, and accepts the new seconds with the old cycle count. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define READERS 2
#define TICKS 30
#define READS 30
#define CYCLES_PER_TICK 2500ul

struct timekeeper {
    atomic_uint seq;
    atomic_ulong ticks;
    atomic_ulong cycle_last;
};

static struct timekeeper tk;
static unsigned bad[READERS];
static unsigned long last_seen[READERS];

static void timekeeping_update(struct timekeeper *t, unsigned long now)
{
    atomic_fetch_add(&t->seq, 1);
    atomic_store(&t->ticks, now); // CAUSE
    atomic_store(&t->cycle_last, now * CYCLES_PER_TICK); // CAUSE
    atomic_fetch_add(&t->seq, 1);
}

static unsigned read_begin(struct timekeeper *t)
{
    return atomic_load(&t->seq); // CAUSE
}

static int read_retry(struct timekeeper *t, unsigned start)
{
    return atomic_load(&t->seq) != start; // CAUSE
}

static void get_time(struct timekeeper *t, unsigned long *ticks, unsigned long *cycles)
{
    unsigned s;
    do {
        s = read_begin(t);
        *ticks = atomic_load(&t->ticks);
        *cycles = atomic_load(&t->cycle_last);
    } while (read_retry(t, s));
}

static void *updater(void *arg)
{
    (void)arg;
    for (unsigned long i = 1; i <= TICKS; i++)
        timekeeping_update(&tk, i);
    return NULL;
}

static void *reader(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < READS; i++) {
        unsigned long ticks, cycles;
        get_time(&tk, &ticks, &cycles);
        if (cycles != ticks * CYCLES_PER_TICK || ticks < last_seen[id])
            bad[id]++;
        last_seen[id] = ticks;
    }
    return NULL;
}

int main(void)
{
    pthread_t u, r[READERS];
    unsigned errors = 0;

    for (long i = 0; i < READERS; i++)
        pthread_create(&r[i], NULL, reader, (void *)i);
    pthread_create(&u, NULL, updater, NULL);
    pthread_join(u, NULL);
    for (int i = 0; i < READERS; i++) {
        pthread_join(r[i], NULL);
        errors += bad[i];
    }
    if (errors) {
        printf("FAIL: %u inconsistent readings\n", errors);
        return 1;
    }
    printf("ok: clock at %lu\n", atomic_load(&tk.ticks));
    return 0;
}
