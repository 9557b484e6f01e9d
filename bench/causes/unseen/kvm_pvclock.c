/* class: seqlock (writer never marks itself busy); fails by: wrong result; cause: (after Linux KVM's pvclock) the host
 * changes the version once, after it has written both fields, so that a guest which reads between the two writes
 * sees the same version before and after and takes one new and one old field */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define GUESTS 2
#define READS 5
#define UPDATES 5
#define NS_PER_TICK 10

struct pvclock {
    atomic_uint version;
    atomic_long tsc_timestamp, system_time;
};

static struct pvclock clock_page;
static atomic_long tsc;
static long at[GUESTS][READS], ns[GUESTS][READS];

static void host_update(void)
{
    long now = atomic_fetch_add(&tsc, 100) + 100;
    atomic_store(&clock_page.tsc_timestamp, now);                 // CAUSE
    atomic_store(&clock_page.system_time, now * NS_PER_TICK);     // CAUSE
    atomic_fetch_add(&clock_page.version, 2);
}

static void *host(void *arg)
{
    (void)arg;
    for (int i = 0; i < UPDATES; i++) {
        host_update();
        sched_yield();
    }
    return NULL;
}

static void read_pair(long *stamp, long *base)
{
    for (;;) {
        unsigned v = atomic_load(&clock_page.version);
        *stamp = atomic_load(&clock_page.tsc_timestamp);          // CAUSE
        *base = atomic_load(&clock_page.system_time);             // CAUSE
        if (!(v & 1) && v == atomic_load(&clock_page.version))
            return;
        sched_yield();
    }
}

static void *guest(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < READS; i++) {
        long stamp, base;
        read_pair(&stamp, &base);
        at[id][i] = atomic_load(&tsc);
        ns[id][i] = base + (at[id][i] - stamp) * NS_PER_TICK;
    }
    return NULL;
}

static int check(int id)
{
    int bad = 0;
    for (int i = 0; i < READS; i++)
        if (ns[id][i] != at[id][i] * NS_PER_TICK) {
            printf("guest %d: tick %ld is %ld ns\n", id, at[id][i], ns[id][i]);
            bad++;
        }
    return bad;
}

int main(void)
{
    pthread_t h, g[GUESTS];
    int bad = 0;
    for (long i = 0; i < GUESTS; i++)
        pthread_create(&g[i], NULL, guest, (void *)i);
    pthread_create(&h, NULL, host, NULL);
    for (int i = 0; i < GUESTS; i++)
        pthread_join(g[i], NULL);
    pthread_join(h, NULL);
    for (int i = 0; i < GUESTS; i++)
        bad += check(i);
    if (bad)
        return 1;
    printf("%d reads\n", GUESTS * READS);
    return 0;
}
