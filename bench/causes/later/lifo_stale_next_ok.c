/* correct twin of lifo_stale_next: the node is linked anew before every compare-and-swap */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define PRODUCERS 2
#define PER_PRODUCER 6
#define TOTAL (PRODUCERS * PER_PRODUCER)

struct work {
    struct work *next;
    int cost;
};

static _Atomic(struct work *) deferred;
static struct work pool[PRODUCERS][PER_PRODUCER];
static atomic_int producing = PRODUCERS;

static void defer(struct work *w)
{
    struct work *top = atomic_load(&deferred);
    do {
        w->next = top;
    } while (!atomic_compare_exchange_strong(&deferred, &top, w));
}

static int run_deferred(long *cost)
{
    int n = 0;
    struct work *w = atomic_exchange(&deferred, NULL);
    while (w) {
        struct work *next = w->next;
        *cost += w->cost;
        n++;
        w = next;
    }
    return n;
}

static void *producer(void *arg)
{
    struct work *mine = arg;
    for (int i = 0; i < PER_PRODUCER; i++) {
        mine[i].cost = 5 + i;
        defer(&mine[i]);
    }
    atomic_fetch_sub(&producing, 1);
    return NULL;
}

static long total_cost;
static int total_run;

static void *reclaimer(void *arg)
{
    (void)arg;
    while (atomic_load(&producing) > 0) {
        total_run += run_deferred(&total_cost);
        sched_yield();
    }
    total_run += run_deferred(&total_cost);
    return NULL;
}

int main(void)
{
    pthread_t r, p[PRODUCERS];
    long expected = 0;
    for (int i = 0; i < PER_PRODUCER; i++)
        expected += PRODUCERS * (5 + i);
    pthread_create(&r, NULL, reclaimer, NULL);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_create(&p[i], NULL, producer, pool[i]);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(p[i], NULL);
    pthread_join(r, NULL);
    printf("%d of %d run, cost %ld of %ld\n", total_run, TOTAL, total_cost, expected);
    return total_run != TOTAL || total_cost != expected;
}
