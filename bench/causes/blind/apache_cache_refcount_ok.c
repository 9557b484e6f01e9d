/* Twin of apache_cache_refcount: the result of the decrement itself is tested. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct cache_object {
    char key[8];
    atomic_int refcount;
    atomic_int cleaned;
};

static struct cache_object objects[3] = { { "/a", 2, 0 }, { "/b", 2, 0 }, { "/c", 2, 0 } };
static pthread_mutex_t sconf_lock = PTHREAD_MUTEX_INITIALIZER;
static int cache_size = 3;
static pthread_barrier_t served;

static void cleanup_cache_object(struct cache_object *obj)
{
    if (atomic_exchange(&obj->cleaned, 1)) {
        fprintf(stderr, "%s cleaned up twice\n", obj->key);
        abort();
    }
    pthread_mutex_lock(&sconf_lock);
    cache_size--;
    pthread_mutex_unlock(&sconf_lock);
}

static void decrement_refcount(struct cache_object *obj)
{
    int before = atomic_fetch_sub(&obj->refcount, 1);
    if (before == 1)
        cleanup_cache_object(obj);
}

static int serve(struct cache_object *obj)
{
    int n = 0;
    for (const char *k = obj->key; *k; k++)
        n++;
    return n;
}

static void *worker(void *arg)
{
    long bytes = 0;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        bytes += serve(&objects[i]);
        decrement_refcount(&objects[i]);
    }
    pthread_barrier_wait(&served);
    return (void *)(bytes + cache_size);
}

int main(void)
{
    pthread_t t[2];
    void *bytes[2];
    pthread_barrier_init(&served, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], &bytes[i]);
    printf("%ld bytes, %d cached\n", (long)bytes[0] + (long)bytes[1], cache_size);
    return cache_size != 0;
}
