/* class: atomicity violation (list taken away as a whole and put back); fails by: wrong result; cause: a thread takes the whole list of free buffers out of the pool to pick one, another thread finds the pool empty in between and allocates one more buffer, and so the pool grows without need */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { DECODERS = 2, FRAMES = 3 };

typedef struct BufferPoolEntry {
    struct BufferPoolEntry *next;
    int data[8];
} BufferPoolEntry;

typedef struct BufferPool {
    _Atomic(BufferPoolEntry *) list;
    atomic_int nb_allocated;
} BufferPool;

static BufferPool frame_pool;

static BufferPoolEntry *pool_alloc_buffer(BufferPool *pool) {
    BufferPoolEntry *buf = calloc(1, sizeof *buf);
    if (!buf)
        exit(2);
    atomic_fetch_add(&pool->nb_allocated, 1);
    return buf;
}

/* takes all the free buffers */
static BufferPoolEntry *get_pool(BufferPool *pool) {
    return atomic_exchange(&pool->list, NULL); // CAUSE
}

static void add_to_pool(BufferPool *pool, BufferPoolEntry *buf) {
    if (!buf)
        return;
    BufferPoolEntry *end = buf, *none = NULL;
    while (end->next)
        end = end->next;
    while (!atomic_compare_exchange_strong(&pool->list, &none, buf)) { // CAUSE
        /* somebody has put buffers back meanwhile: join the lists */
        end->next = get_pool(pool);
        while (end->next)
            end = end->next;
        none = NULL;
    }
}

static BufferPoolEntry *buffer_pool_get(BufferPool *pool) {
    BufferPoolEntry *buf = get_pool(pool); // CAUSE
    if (!buf)
        return pool_alloc_buffer(pool);
    add_to_pool(pool, buf->next);
    buf->next = NULL;
    return buf;
}

static void pool_release_buffer(BufferPool *pool, BufferPoolEntry *buf) {
    add_to_pool(pool, buf);
}

static void *decoder(void *arg) {
    int *sum = arg;
    for (int frame = 1; frame <= FRAMES; frame++) {
        BufferPoolEntry *buf = buffer_pool_get(&frame_pool);
        for (int i = 0; i < 8; i++)
            buf->data[i] = frame * i;
        for (int i = 0; i < 8; i++)
            *sum += buf->data[i];
        pool_release_buffer(&frame_pool, buf);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[DECODERS];
    int sums[DECODERS] = { 0 };
    for (int i = 0; i < DECODERS; i++)
        pool_release_buffer(&frame_pool, pool_alloc_buffer(&frame_pool));
    for (int i = 0; i < DECODERS; i++)
        pthread_create(&threads[i], NULL, decoder, &sums[i]);
    for (int i = 0; i < DECODERS; i++)
        pthread_join(threads[i], NULL);
    int allocated = atomic_load(&frame_pool.nb_allocated);
    printf("sums %d and %d, %d buffers for %d decoders\n", sums[0], sums[1], allocated, DECODERS);
    for (BufferPoolEntry *buf = frame_pool.list, *next; buf; buf = next) {
        next = buf->next;
        free(buf);
    }
    return allocated == DECODERS ? 0 : 1;
}
