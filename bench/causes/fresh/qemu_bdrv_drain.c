/* class: broken reader-writer flag; fails by: assert; cause: a request looks at the quiesce flag first and counts itself as in flight afterwards, so that a drain between the two sees nothing in flight */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define REQUESTS 5
#define IOTHREADS 2
#define SNAPSHOTS 2

struct image { atomic_int open; atomic_int writes; };

struct bds {
    atomic_int quiesce;
    atomic_int in_flight;
    _Atomic(struct image *) file;
};

static struct image chain[SNAPSHOTS + 1] = { { 1, 0 } };
static struct bds disk = { 0, 0, &chain[0] };

static void request_begin(struct bds *bs)
{
    while (atomic_load(&bs->quiesce))             // CAUSE
        sched_yield();
    atomic_fetch_add(&bs->in_flight, 1);          // CAUSE
}

static void request_end(struct bds *bs)
{
    atomic_fetch_sub(&bs->in_flight, 1);
}

static void drained_begin(struct bds *bs)
{
    atomic_store(&bs->quiesce, 1);
    while (atomic_load(&bs->in_flight) > 0)       // CAUSE
        sched_yield();
}

static void drained_end(struct bds *bs)
{
    atomic_store(&bs->quiesce, 0);
}

static void *iothread(void *arg)
{
    struct bds *bs = arg;
    for (int i = 0; i < REQUESTS; i++) {
        request_begin(bs);
        struct image *img = atomic_load(&bs->file);
        atomic_fetch_add(&img->writes, 1);
        assert(atomic_load(&img->open));
        request_end(bs);
    }
    return NULL;
}

static void snapshot(struct bds *bs, int n)
{
    drained_begin(bs);
    atomic_store(&chain[n].open, 0);
    atomic_store(&chain[n + 1].open, 1);
    atomic_store(&bs->file, &chain[n + 1]);
    drained_end(bs);
}

int main(void)
{
    pthread_t t[IOTHREADS];
    int writes = 0;
    for (int i = 0; i < IOTHREADS; i++)
        pthread_create(&t[i], NULL, iothread, &disk);
    for (int n = 0; n < SNAPSHOTS; n++) {
        snapshot(&disk, n);
        sched_yield();
    }
    for (int i = 0; i < IOTHREADS; i++)
        pthread_join(t[i], NULL);
    for (int n = 0; n <= SNAPSHOTS; n++)
        writes += chain[n].writes;
    printf("%d writes\n", writes);
    return writes != IOTHREADS * REQUESTS;
}
