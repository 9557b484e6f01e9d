/* class: seqlock (two writers at once); fails by: wrong result; cause: (after Linux, u64_stats_sync with two writers)
 * two threads write the route without a lock of the writers, so that the sequence is even while both are inside and
 * the route ends, or is read, with the gateway of one and the metric of the other */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define UPDATES 4
#define LOOKUPS 6

static struct {
    atomic_uint seq;
    atomic_int gateway, metric;
    pthread_mutex_t write_lock;
} route = { .write_lock = PTHREAD_MUTEX_INITIALIZER };

static int metric_of(int gateway)
{
    return gateway * 7 + 1;
}

static void route_set(int gateway)
{
    atomic_fetch_add(&route.seq, 1);
    atomic_store(&route.gateway, gateway);        // CAUSE
    atomic_store(&route.metric, metric_of(gateway));    // CAUSE
    atomic_fetch_add(&route.seq, 1);
}

static void route_get(int *gateway, int *metric)
{
    unsigned s;
    for (;;) {
        s = atomic_load(&route.seq);
        if (s & 1) {
            sched_yield();
            continue;
        }
        *gateway = atomic_load(&route.gateway);   // CAUSE
        *metric = atomic_load(&route.metric);     // CAUSE
        if (atomic_load(&route.seq) == s)
            return;
    }
}

static void *routing_daemon(void *arg)
{
    int base = *(int *)arg;
    for (int i = 0; i < UPDATES; i++)
        route_set(base + i);
    return NULL;
}

static void *forwarder(void *arg)
{
    int *torn = arg;
    for (int i = 0; i < LOOKUPS; i++) {
        int gateway, metric;
        route_get(&gateway, &metric);
        if (metric != metric_of(gateway))
            ++*torn;
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t ospf, bgp, f;
    int base[2] = { 10, 200 }, torn = 0, gateway, metric;
    pthread_mutex_lock(&route.write_lock);
    atomic_store(&route.gateway, 1);
    atomic_store(&route.metric, metric_of(1));
    pthread_mutex_unlock(&route.write_lock);
    pthread_create(&ospf, NULL, routing_daemon, &base[0]);
    pthread_create(&bgp, NULL, routing_daemon, &base[1]);
    pthread_create(&f, NULL, forwarder, &torn);
    pthread_join(ospf, NULL);
    pthread_join(bgp, NULL);
    pthread_join(f, NULL);
    route_get(&gateway, &metric);
    printf("gateway %d, metric %d, %d torn\n", gateway, metric, torn);
    return torn != 0 || metric != metric_of(gateway);
}
