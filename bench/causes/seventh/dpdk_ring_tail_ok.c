/* repaired twin of dpdk_ring_tail.c */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { RING_SIZE = 64, PRODUCERS = 2, BURSTS = 8, BURST = 3, PKTLEN = 24 };

struct mbuf {
    unsigned port, seq, len;
    uint32_t csum;
    unsigned char data[PKTLEN];
};

struct ring {
    unsigned prod_head, prod_tail;
    unsigned cons_head;
    struct mbuf *slots[RING_SIZE];
};

struct lcore {
    unsigned port;
    struct mbuf pkts[BURSTS * BURST];
};

static struct ring ring;
static struct lcore lcores[PRODUCERS];
static unsigned producers_left = PRODUCERS;

static uint32_t pkt_csum(const struct mbuf *m) {
    uint32_t s = m->port + m->seq;
    for (unsigned i = 0; i < m->len; i++)
        s = (s << 3 | s >> 29) ^ m->data[i];
    return s;
}

static void ring_enqueue_bulk(struct ring *r, struct mbuf **objs, unsigned n) {
    unsigned head = __atomic_load_n(&r->prod_head, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(&r->prod_head, &head, head + n, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    for (unsigned i = 0; i < n; i++)
        __atomic_store_n(&r->slots[(head + i) % RING_SIZE], objs[i], __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&r->prod_tail, __ATOMIC_SEQ_CST) != head)
        sched_yield();
    __atomic_store_n(&r->prod_tail, head + n, __ATOMIC_SEQ_CST);
}

static bool ring_dequeue(struct ring *r, struct mbuf **out) {
    unsigned tail = __atomic_load_n(&r->prod_tail, __ATOMIC_SEQ_CST);
    if (r->cons_head == tail)
        return false;
    struct mbuf **slot = &r->slots[r->cons_head % RING_SIZE];
    *out = __atomic_load_n(slot, __ATOMIC_SEQ_CST);
    __atomic_store_n(slot, NULL, __ATOMIC_SEQ_CST);
    r->cons_head++;
    return true;
}

static void *rx_lcore(void *arg) {
    struct lcore *lc = arg;
    for (unsigned b = 0; b < BURSTS; b++) {
        struct mbuf *burst[BURST];
        for (unsigned i = 0; i < BURST; i++) {
            struct mbuf *m = &lc->pkts[b * BURST + i];
            m->port = lc->port, m->seq = b * BURST + i, m->len = PKTLEN - i;
            for (unsigned k = 0; k < m->len; k++)
                m->data[k] = (unsigned char)(m->seq * k);
            m->csum = pkt_csum(m);
            burst[i] = m;
        }
        ring_enqueue_bulk(&ring, burst, BURST);
    }
    __atomic_fetch_sub(&producers_left, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *tx_lcore(void *arg) {
    unsigned long *sent = arg;
    unsigned next[PRODUCERS] = {0};
    for (;;) {
        struct mbuf *m;
        bool last = __atomic_load_n(&producers_left, __ATOMIC_SEQ_CST) == 0;
        if (ring_dequeue(&ring, &m)) {
            if (!m) {
                puts("tx: empty slot in the ring");
                exit(1);
            }
            if (m->csum != pkt_csum(m) || m->seq != next[m->port]++) {
                puts("tx: bad packet");
                exit(1);
            }
            ++*sent;
        } else if (last) {
            return NULL;
        } else {
            sched_yield();
        }
    }
}

int main(void) {
    pthread_t rx[PRODUCERS], tx;
    unsigned long sent = 0;
    pthread_create(&tx, NULL, tx_lcore, &sent);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        lcores[i].port = i;
        pthread_create(&rx[i], NULL, rx_lcore, &lcores[i]);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(rx[i], NULL);
    pthread_join(tx, NULL);
    printf("sent %lu\n", sent);
    return sent == PRODUCERS * BURSTS * BURST ? 0 : 1;
}
