/* class: timeout against completion (request freed while the completer holds it); fails by: abort; cause: the sender times out and recycles its request after the irq thread has taken it off the active list and before it has written the reply, so the reply is for the next request which uses the slot */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 3, CLIENTS = 2, CALLS = 3, TX_TOUT_MS = 250 };

struct mbox_req {
    struct mbox_req *next;
    unsigned seq, arg, value;
    int taken, done;
    pthread_cond_t tx_complete;
};

static struct mbox_chan {
    pthread_mutex_t lock;
    pthread_cond_t doorbell, slot_free;
    struct mbox_req slots[SLOTS], *free_list;
    struct mbox_req *fifo, **fifo_tail;
    unsigned next_seq, sent, timeouts;
    int shutdown;
} chan = { .lock = PTHREAD_MUTEX_INITIALIZER, .doorbell = PTHREAD_COND_INITIALIZER,
           .slot_free = PTHREAD_COND_INITIALIZER };

static void unlink_req(struct mbox_req *req) {
    for (struct mbox_req **p = &chan.fifo; *p; p = &(*p)->next)
        if (*p == req) {
            *p = req->next;
            break;
        }
    chan.fifo_tail = &chan.fifo;
    while (*chan.fifo_tail)
        chan.fifo_tail = &(*chan.fifo_tail)->next;
}

static int mbox_send_message(unsigned arg, unsigned *value) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TX_TOUT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&chan.lock);
    while (!chan.free_list)
        pthread_cond_wait(&chan.slot_free, &chan.lock);
    struct mbox_req *req = chan.free_list;
    chan.free_list = req->next;
    req->seq = ++chan.next_seq;
    req->arg = arg;
    req->next = NULL;
    req->taken = req->done = 0;
    *chan.fifo_tail = req;
    chan.fifo_tail = &req->next;
    chan.sent++;
    pthread_cond_signal(&chan.doorbell);
    int rc = 0;
    while (!req->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&req->tx_complete, &chan.lock, &until); // CAUSE
    if (!req->done && !req->taken)
        unlink_req(req);
    rc = req->done ? 0 : -ETIME;
    if (rc == 0)
        *value = req->value;
    else
        chan.timeouts++;
    req->next = chan.free_list; // CAUSE
    chan.free_list = req;
    pthread_cond_signal(&chan.slot_free);
    pthread_mutex_unlock(&chan.lock);
    return rc;
}

static void *mbox_irq_thread(void *unused) {
    (void)unused;
    pthread_mutex_lock(&chan.lock);
    for (;;) {
        while (!chan.fifo && !chan.shutdown)
            pthread_cond_wait(&chan.doorbell, &chan.lock);
        struct mbox_req *req = chan.fifo;
        if (!req)
            break;
        chan.fifo = req->next;
        if (!chan.fifo)
            chan.fifo_tail = &chan.fifo;
        req->taken = 1; // CAUSE
        unsigned seq = req->seq, arg = req->arg;
        pthread_mutex_unlock(&chan.lock);
        unsigned value = 0;
        for (unsigned i = 0; i <= arg; i++)
            value += i * arg;
        pthread_mutex_lock(&chan.lock);
        if (req->seq != seq) { // CAUSE
            fprintf(stderr, "mailbox: reply to %u for request %u\n", seq, req->seq);
            abort();
        }
        req->value = value;
        req->done = 1; // CAUSE
        pthread_cond_signal(&req->tx_complete);
    }
    pthread_mutex_unlock(&chan.lock);
    return NULL;
}

static void *client(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg, bad = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned n = self * 10 + i, v = 0;
        if (mbox_send_message(n, &v) == 0 && v != n * n * (n + 1) / 2)
            bad++;
    }
    return (void *)(uintptr_t)bad;
}

int main(void) {
    pthread_t irq, t[CLIENTS];
    void *bad;
    unsigned wrong = 0;
    chan.fifo_tail = &chan.fifo;
    for (int i = 0; i < SLOTS; i++) {
        pthread_cond_init(&chan.slots[i].tx_complete, NULL);
        chan.slots[i].next = chan.free_list;
        chan.free_list = &chan.slots[i];
    }
    pthread_create(&irq, NULL, mbox_irq_thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&t[i], NULL, client, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(t[i], &bad);
        wrong += (unsigned)(uintptr_t)bad;
    }
    pthread_mutex_lock(&chan.lock);
    chan.shutdown = 1;
    pthread_cond_signal(&chan.doorbell);
    pthread_mutex_unlock(&chan.lock);
    pthread_join(irq, NULL);
    printf("sent %u timeouts %u wrong %u\n", chan.sent, chan.timeouts, wrong);
    return wrong == 0 && chan.sent == CLIENTS * CALLS ? 0 : 1;
}
