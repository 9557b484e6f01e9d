/* class: none (correct twin of dpdk_mp_ring: a producer waits for its predecessors before it raises the tail) */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define PRODUCERS 2
#define PER_PRODUCER 24
#define RING_SIZE 16u
#define RING_MASK (RING_SIZE - 1)

struct mbuf {
    unsigned port;
    unsigned len;
};

struct ring {
    atomic_uint prod_head;
    atomic_uint prod_tail;
    atomic_uint cons_tail;
    _Atomic(struct mbuf *) slot[RING_SIZE];
};

static struct ring rx;
static struct mbuf pool[PRODUCERS][PER_PRODUCER];
static unsigned long rx_bytes[PRODUCERS];

static void ring_enqueue(struct ring *r, struct mbuf *m)
{
    unsigned h = atomic_load(&r->prod_head);

    for (;;) {
        if (h - atomic_load(&r->cons_tail) >= RING_SIZE) {
            sched_yield();
            h = atomic_load(&r->prod_head);
        } else if (atomic_compare_exchange_strong(&r->prod_head, &h, h + 1)) {
            break;
        }
    }
    atomic_store(&r->slot[h & RING_MASK], m);
    while (atomic_load(&r->prod_tail) != h)
        sched_yield();
    atomic_store(&r->prod_tail, h + 1);
}

static struct mbuf *ring_dequeue(struct ring *r)
{
    unsigned c = atomic_load(&r->cons_tail);

    while (atomic_load(&r->prod_tail) == c)
        sched_yield();
    struct mbuf *m = atomic_load(&r->slot[c & RING_MASK]);
    assert(m != NULL);
    atomic_store(&r->slot[c & RING_MASK], NULL);
    atomic_store(&r->cons_tail, c + 1);
    return m;
}

static void *port_rx(void *arg)
{
    unsigned port = (unsigned)(long)arg;
    for (unsigned i = 0; i < PER_PRODUCER; i++) {
        pool[port][i] = (struct mbuf){ port, 60 + i };
        ring_enqueue(&rx, &pool[port][i]);
    }
    return NULL;
}

static void *worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < PRODUCERS * PER_PRODUCER; i++) {
        struct mbuf *m = ring_dequeue(&rx);
        rx_bytes[m->port] += m->len;
    }
    return NULL;
}

int main(void)
{
    pthread_t p[PRODUCERS], w;
    unsigned long want = 0;

    pthread_create(&w, NULL, worker, NULL);
    for (long i = 0; i < PRODUCERS; i++)
        pthread_create(&p[i], NULL, port_rx, (void *)i);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(p[i], NULL);
    pthread_join(w, NULL);
    for (unsigned i = 0; i < PER_PRODUCER; i++)
        want += 60 + i;
    if (rx_bytes[0] != want || rx_bytes[1] != want) {
        printf("FAIL: %lu and %lu bytes, expected %lu\n", rx_bytes[0], rx_bytes[1], want);
        return 1;
    }
    printf("ok: %lu bytes per port\n", want);
    return 0;
}
