/* class: memory order (store buffering between two flags); fails by: deadlock; cause: the event loop stores notify_me and then loads scheduled while the notifier stores scheduled and then loads notify_me, with no full barrier on either side both may read the old value, and the loop sleeps in poll with a bottom half scheduled */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SUBMITTERS = 2, ROUNDS = 5 };

typedef struct AioContext AioContext;

typedef struct QEMUBH {
    AioContext *ctx;
    void (*cb)(void *opaque);
    void *opaque;
    atomic_int scheduled;
} QEMUBH;

struct AioContext {
    atomic_int notify_me;
    int notifier;
    QEMUBH *bhs[SUBMITTERS + 1];
    unsigned nbh, dispatched, polls;
    int stopping;
};

typedef struct BlockReq {
    QEMUBH bh;
    sem_t done;
    unsigned long sector, sectors, csum;
} BlockReq;

static AioContext ctx;
static BlockReq reqs[SUBMITTERS];
static QEMUBH stop_bh;
static struct {
    pthread_mutex_t lock;
    unsigned ops;
    unsigned long sectors;
} blk_stats = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void aio_notify(AioContext *c) {
    if (atomic_load_explicit(&c->notify_me, memory_order_acquire)) // CAUSE
        eventfd_write(c->notifier, 1);
}

static void qemu_bh_schedule(QEMUBH *bh) {
    atomic_store_explicit(&bh->scheduled, 1, memory_order_release); // CAUSE
    aio_notify(bh->ctx);
}

static int bh_pending(AioContext *c) {
    for (unsigned i = 0; i < c->nbh; i++)
        if (atomic_load_explicit(&c->bhs[i]->scheduled, memory_order_acquire)) // CAUSE
            return 1;
    return 0;
}

static void aio_bh_poll(AioContext *c) {
    for (unsigned i = 0; i < c->nbh; i++) {
        QEMUBH *bh = c->bhs[i];
        if (atomic_exchange(&bh->scheduled, 0)) {
            c->dispatched++;
            bh->cb(bh->opaque);
        }
    }
}

static void aio_poll(AioContext *c) {
    struct pollfd pfd = { .fd = c->notifier, .events = POLLIN };
    eventfd_t v;
    atomic_store_explicit(&c->notify_me, 1, memory_order_release); // CAUSE
    poll(&pfd, 1, bh_pending(c) ? 0 : -1);
    atomic_store_explicit(&c->notify_me, 0, memory_order_release);
    if (pfd.revents & POLLIN)
        eventfd_read(c->notifier, &v);
    c->polls++;
    aio_bh_poll(c);
}

static void blk_complete(void *opaque) {
    BlockReq *r = opaque;
    for (unsigned long s = 0; s < r->sectors; s++)
        r->csum += (r->sector + s) * 512;
    pthread_mutex_lock(&blk_stats.lock);
    blk_stats.ops++;
    blk_stats.sectors += r->sectors;
    pthread_mutex_unlock(&blk_stats.lock);
    sem_post(&r->done);
}

static void iothread_stop_bh(void *opaque) {
    ((AioContext *)opaque)->stopping = 1;
}

static void *iothread_run(void *arg) {
    AioContext *c = arg;
    while (!c->stopping)
        aio_poll(c);
    return NULL;
}

static void *submitter(void *arg) {
    BlockReq *r = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        r->sector = i * 8;
        r->sectors = 8;
        qemu_bh_schedule(&r->bh);
        sem_wait(&r->done);
    }
    return NULL;
}

static void bh_init(QEMUBH *bh, void (*cb)(void *), void *opaque) {
    bh->ctx = &ctx;
    bh->cb = cb;
    bh->opaque = opaque;
    ctx.bhs[ctx.nbh++] = bh;
}

int main(void) {
    pthread_t io, t[SUBMITTERS];
    ctx.notifier = eventfd(0, EFD_NONBLOCK);
    for (int i = 0; i < SUBMITTERS; i++) {
        sem_init(&reqs[i].done, 0, 0);
        bh_init(&reqs[i].bh, blk_complete, &reqs[i]);
    }
    bh_init(&stop_bh, iothread_stop_bh, &ctx);
    pthread_create(&io, NULL, iothread_run, &ctx);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_create(&t[i], NULL, submitter, &reqs[i]);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(t[i], NULL);
    qemu_bh_schedule(&stop_bh);
    pthread_join(io, NULL);
    printf("ops %u sectors %lu dispatched %u\n", blk_stats.ops, blk_stats.sectors, ctx.dispatched);
    return blk_stats.ops == SUBMITTERS * ROUNDS && ctx.dispatched == blk_stats.ops + 1 ? 0 : 1;
}
