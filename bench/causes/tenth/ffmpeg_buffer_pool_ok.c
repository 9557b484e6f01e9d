/* correct twin of ffmpeg_buffer_pool: the list of free buffers is only changed under a mutex and never seems empty while it is not */
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
    pthread_mutex_t mutex;
    BufferPoolEntry *list;
    atomic_int nb_allocated;
} BufferPool;

static BufferPool frame_pool = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static BufferPoolEntry *pool_alloc_buffer(BufferPool *pool) {
    BufferPoolEntry *buf = calloc(1, sizeof *buf);
    if (!buf)
        exit(2);
    atomic_fetch_add(&pool->nb_allocated, 1);
    return buf;
}

static BufferPoolEntry *buffer_pool_get(BufferPool *pool) {
    pthread_mutex_lock(&pool->mutex);
    BufferPoolEntry *buf = pool->list;
    if (buf) {
        pool->list = buf->next;
        buf->next = NULL;
    } else {
        buf = pool_alloc_buffer(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    return buf;
}

static void pool_release_buffer(BufferPool *pool, BufferPoolEntry *buf) {
    pthread_mutex_lock(&pool->mutex);
    buf->next = pool->list;
    pool->list = buf;
    pthread_mutex_unlock(&pool->mutex);
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
