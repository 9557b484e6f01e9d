/* repaired twin of mozilla_property_cache.c */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CACHE_SIZE = 8, OBJECTS = 2, PROPS = 2, LOOKUPS = 12, COLLECTIONS = 4 };

struct entry {
    unsigned obj, prop;
    unsigned generation;    /* 0: unused */
    unsigned slot;
};

struct runtime {
    pthread_mutex_t gc_lock;
    unsigned generation;
    struct {
        volatile bool empty;
        struct entry table[CACHE_SIZE];
        unsigned hits, misses, flushes, skipped;
    } cache;
    unsigned stale;
};

static struct runtime rt = {
    .gc_lock = PTHREAD_MUTEX_INITIALIZER,
    .generation = 1,
    .cache.empty = true,
};

static unsigned hash(unsigned obj, unsigned prop) {
    return (obj * 3 + prop * 5) % CACHE_SIZE;
}

static unsigned slow_lookup(unsigned obj, unsigned prop) {
    unsigned h = 17;
    for (unsigned i = 0; i < 20; i++)
        h = h * 31 + obj * i + prop;
    return h % 64;
}

static void fill_cache(unsigned obj, unsigned prop, unsigned slot) {
    pthread_mutex_lock(&rt.gc_lock);
    struct entry *e = &rt.cache.table[hash(obj, prop)];
    e->obj = obj, e->prop = prop, e->slot = slot;
    e->generation = rt.generation;
    rt.cache.empty = false;
    pthread_mutex_unlock(&rt.gc_lock);
}

static void flush_cache_locked(void) {
    if (rt.cache.empty) {
        rt.cache.skipped++;
        return;
    }
    for (int i = 0; i < CACHE_SIZE; i++)
        rt.cache.table[i].generation = 0;
    rt.cache.empty = true;
    rt.cache.flushes++;
}

static void collect(void) {
    pthread_mutex_lock(&rt.gc_lock);
    flush_cache_locked();
    rt.generation++;
    pthread_mutex_unlock(&rt.gc_lock);
}

static bool test_cache(unsigned obj, unsigned prop, unsigned *slot) {
    bool hit = false;
    pthread_mutex_lock(&rt.gc_lock);
    struct entry *e = &rt.cache.table[hash(obj, prop)];
    if (e->generation && e->obj == obj && e->prop == prop) {
        if (e->generation != rt.generation)
            rt.stale++;
        *slot = e->slot;
        hit = true;
        rt.cache.hits++;
    } else {
        rt.cache.misses++;
    }
    pthread_mutex_unlock(&rt.gc_lock);
    return hit;
}

static void *interpreter(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    unsigned long sum = 0;
    for (unsigned i = 0; i < LOOKUPS; i++) {
        unsigned obj = i % OBJECTS, prop = (i / 2 + seed) % PROPS, slot;
        if (!test_cache(obj, prop, &slot)) {
            slot = slow_lookup(obj, prop);
            fill_cache(obj, prop, slot);
        }
        sum += slot;
    }
    return (void *)(uintptr_t)sum;
}

static void *collector(void *arg) {
    (void)arg;
    for (int i = 0; i < COLLECTIONS; i++) {
        collect();
    }
    return NULL;
}

int main(void) {
    pthread_t t[3];
    pthread_create(&t[0], NULL, interpreter, (void *)1);
    pthread_create(&t[1], NULL, collector, NULL);
    pthread_create(&t[2], NULL, interpreter, (void *)3);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < CACHE_SIZE; i++) {
        struct entry *e = &rt.cache.table[i];
        if (e->generation && e->generation != rt.generation)
            rt.stale++;
    }
    printf("hits %u misses %u flushes %u\n", rt.cache.hits, rt.cache.misses, rt.cache.flushes);
    if (rt.stale) {
        printf("%u entries of a dead generation\n", rt.stale);
        return 1;
    }
    return 0;
}
