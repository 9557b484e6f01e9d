/* Twin of memcached_incr: one critical section for the whole increment. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct item {
    char key[16];
    long value;
    unsigned long cas_id;
    unsigned flags;
} item;

static item table[4];
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t finished;

static item *item_get(const char *key)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

static long do_read(item *it)
{
    long v;
    v = it->value;
    return v;
}

static void do_store(item *it, long v)
{
    it->value = v;
    it->cas_id++;
}

static void process_arithmetic(const char *key, long delta)
{
    item *it = item_get(key);
    pthread_mutex_lock(&cache_lock);
    long v = do_read(it);
    do_store(it, v + delta);
    pthread_mutex_unlock(&cache_lock);
}

static void *worker(void *arg)
{
    long delta = (long)arg;
    for (int i = 0; i < 2; i++)
        process_arithmetic("hits", delta);
    pthread_barrier_wait(&finished);
    return (void *)item_get("hits")->value;
}

int main(void)
{
    pthread_t t[2];
    strcpy(table[0].key, "misses");
    strcpy(table[1].key, "hits");
    pthread_barrier_init(&finished, NULL, 2);
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, worker, (void *)(i + 1));
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("hits %ld, cas %lu\n", table[1].value, table[1].cas_id);
    return table[1].value != 6 || table[1].cas_id != 4;
}
