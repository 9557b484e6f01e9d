/* class: deadlock (lock left held); fails by: deadlock; cause: touch returns without unlocking when another thread has
 * expired the item, and the next thread to lock the cache waits for ever.
 * Modelled on error paths in Memcached (items.c, do_item_get with an early return). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct item {
    int key;
    int exptime;
    atomic_int linked;
};

static struct item items[3] = { { 1, 60, 1 }, { 2, 60, 1 }, { 3, 60, 1 } };
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int touched, missed, expired;

static struct item *find(int key)
{
    for (int i = 0; i < 3; i++)
        if (items[i].key == key && items[i].linked)
            return &items[i];
    return NULL;
}

static int touch(int key, int exptime)
{
    pthread_mutex_lock(&cache_lock); // CAUSE
    struct item *it = find(key);
    if (!it) {
        atomic_fetch_add(&missed, 1);
        return 0; // CAUSE
    }
    it->exptime = exptime;
    pthread_mutex_unlock(&cache_lock);
    atomic_fetch_add(&touched, 1);
    return 1;
}

static int process_touch(int key, int exptime)
{
    if (!find(key)) { // CAUSE
        atomic_fetch_add(&missed, 1);
        return 0;
    }
    return touch(key, exptime);
}

static void expire(int key)
{
    pthread_mutex_lock(&cache_lock); // CAUSE
    struct item *it = find(key);
    if (it)
        it->linked = 0; // CAUSE
    pthread_mutex_unlock(&cache_lock);
    atomic_fetch_add(&expired, 1);
}

static void *client(void *arg)
{
    int base = (int)(long)arg;
    for (int k = 1; k <= 3; k++)
        process_touch(k, base + k);
    return NULL;
}

static void *crawler(void *arg)
{
    (void)arg;
    for (int k = 3; k >= 2; k--)
        expire(k);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, client, (void *)100);
    pthread_create(&b, NULL, crawler, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_mutex_lock(&cache_lock); // CAUSE
    int n = (find(1) != NULL) + (find(2) != NULL) + (find(3) != NULL);
    pthread_mutex_unlock(&cache_lock);
    printf("%d touched, %d missed, %d expired\n", atomic_load(&touched), atomic_load(&missed), atomic_load(&expired));
    return n != 1 || atomic_load(&touched) + atomic_load(&missed) != 3;
}
