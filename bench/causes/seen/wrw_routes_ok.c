/* correct twin of wrw_routes: the new table is filled apart and published by one pointer store */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define MAX 4

struct route { atomic_uint prefix; atomic_int iface; };
struct table { atomic_int n; struct route r[MAX]; };

static struct table tables[3];
static _Atomic(struct table *) current;
static atomic_int lookups;

static void add_route(struct table *t, unsigned prefix, int iface)
{
    int i = atomic_load(&t->n);
    atomic_store(&t->r[i].prefix, prefix);
    atomic_store(&t->r[i].iface, iface);
    atomic_store(&t->n, i + 1);
}

static void reload(int gen)
{
    struct table *t = &tables[gen];
    add_route(t, 10, gen);
    add_route(t, 172, 2);
    add_route(t, 192, 3);
    atomic_store(&current, t);
}

static int lookup(unsigned prefix)
{
    struct table *t = atomic_load(&current);
    int n = atomic_load(&t->n);
    atomic_fetch_add(&lookups, 1);
    for (int i = 0; i < n; i++)
        if (atomic_load(&t->r[i].prefix) == prefix)
            return atomic_load(&t->r[i].iface);
    return -1;
}

static void *forwarder(void *arg)
{
    int lost = 0;
    for (int i = 0; i < 5; i++)
        lost += lookup(i % 2 ? 172 : 192) < 0;
    *(int *)arg = lost;
    return NULL;
}

int main(void)
{
    pthread_t f[2];
    int lost[2];
    reload(0);
    for (int i = 0; i < 2; i++)
        pthread_create(&f[i], NULL, forwarder, &lost[i]);
    reload(1);
    reload(2);
    for (int i = 0; i < 2; i++)
        pthread_join(f[i], NULL);
    if (lost[0] + lost[1])
        printf("no route for %d of %d packets\n", lost[0] + lost[1], atomic_load(&lookups));
    return lost[0] + lost[1] != 0;
}
