/* repaired twin of apache_object_refcount.c */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define OBJ_MAGIC 0xcac4eu
enum { OBJECTS = 4, READERS = 2, READS = 8, BODY = 40 };

typedef struct cache_object {
    char key[16];
    unsigned size;
    volatile int refcount;
    volatile uint32_t magic;
    unsigned hits;
    unsigned char body[BODY];
} cache_object_t;

static struct mem_cache {
    pthread_mutex_t lock;
    cache_object_t *slots[OBJECTS];
    size_t cur_size;
    pthread_mutex_t stat_lock;
    unsigned cleaned, served, misses;
} cache = { .lock = PTHREAD_MUTEX_INITIALIZER, .stat_lock = PTHREAD_MUTEX_INITIALIZER };

static cache_object_t *create_entity(unsigned n) {
    cache_object_t *obj = calloc(1, sizeof *obj);
    snprintf(obj->key, sizeof obj->key, "/page%u", n);
    obj->size = BODY;
    for (unsigned i = 0; i < BODY; i++)
        obj->body[i] = (unsigned char)(n * 16 + i);
    obj->refcount = 1;
    obj->magic = OBJ_MAGIC;
    return obj;
}

static void cleanup_cache_object(cache_object_t *obj) {
    if (obj->magic != OBJ_MAGIC) {
        fprintf(stderr, "cache object cleaned up twice\n");
        abort();
    }
    obj->magic = 0;
    pthread_mutex_lock(&cache.stat_lock);
    cache.cleaned++;
    pthread_mutex_unlock(&cache.stat_lock);
    free(obj);
}

static void decrement_refcount(cache_object_t *obj) {
    if (__atomic_sub_fetch(&obj->refcount, 1, __ATOMIC_SEQ_CST) == 0)
        cleanup_cache_object(obj);
}

static cache_object_t *open_entity(unsigned n) {
    pthread_mutex_lock(&cache.lock);
    cache_object_t *obj = cache.slots[n];
    if (obj)
        __atomic_fetch_add(&obj->refcount, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&cache.lock);
    return obj;
}

static void remove_entity(unsigned n) {
    pthread_mutex_lock(&cache.lock);
    cache_object_t *obj = cache.slots[n];
    cache.slots[n] = NULL;
    if (obj)
        cache.cur_size -= obj->size;
    pthread_mutex_unlock(&cache.lock);
    if (obj)
        decrement_refcount(obj);
}

static void *reader(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    unsigned long sum = 0;
    for (unsigned r = 0; r < READS; r++) {
        cache_object_t *obj = open_entity((r * self + self) % OBJECTS);
        if (obj) {
            for (unsigned i = 0; i < obj->size; i++)
                sum += obj->body[i];
            __atomic_fetch_add(&obj->hits, 1, __ATOMIC_RELAXED);
            decrement_refcount(obj);
        }
        pthread_mutex_lock(&cache.stat_lock);
        if (obj) cache.served++; else cache.misses++;
        pthread_mutex_unlock(&cache.stat_lock);
    }
    return (void *)(uintptr_t)sum;
}

static void *evictor(void *arg) {
    (void)arg;
    for (unsigned n = 0; n < OBJECTS; n++)
        remove_entity(n);
    return NULL;
}

int main(void) {
    pthread_t t[READERS + 1];
    for (unsigned n = 0; n < OBJECTS; n++) {
        cache.slots[n] = create_entity(n);
        cache.cur_size += cache.slots[n]->size;
    }
    for (unsigned i = 0; i < READERS; i++)
        pthread_create(&t[i], NULL, reader, (void *)(uintptr_t)(i * 2 + 1));
    pthread_create(&t[READERS], NULL, evictor, NULL);
    for (int i = 0; i <= READERS; i++)
        pthread_join(t[i], NULL);
    printf("served %u misses %u cleaned %u size %zu\n", cache.served, cache.misses, cache.cleaned, cache.cur_size);
    return cache.cleaned == OBJECTS && cache.cur_size == 0 ? 0 : 1;
}
