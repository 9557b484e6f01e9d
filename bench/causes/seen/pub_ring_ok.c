/* correct twin of pub_ring: a producer marks the slot as full after it has written it, and the consumer waits for the mark */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SIZE 16
#define PER 5

struct event { int source, seq; };
struct slot { struct event ev; atomic_int full; };

static struct slot ring[SIZE];
static atomic_uint tail;
static atomic_long sent;

static void put(int source, int seq)
{
    unsigned i = atomic_fetch_add(&tail, 1);
    struct slot *s = &ring[i % SIZE];
    s->ev.source = source;
    s->ev.seq = seq;
    atomic_store(&s->full, 1);
    atomic_fetch_add(&sent, source * 100 + seq);
}

static struct event take(unsigned head)
{
    struct slot *s = &ring[head % SIZE];
    while (atomic_load(&tail) <= head)
        sched_yield();
    while (!atomic_load(&s->full))
        sched_yield();
    struct event e = s->ev;
    return e;
}

static void *sensor(void *arg)
{
    for (int i = 0; i < PER; i++)
        put((int)(long)arg, i);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    long got = 0;
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, sensor, (void *)(i + 1));
    for (unsigned head = 0; head < 2 * PER; head++) {
        struct event e = take(head);
        if (e.source != 1 && e.source != 2)
            abort();
        got += e.source * 100 + e.seq;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    if (got != 1520)
        abort();
    return 0;
}
