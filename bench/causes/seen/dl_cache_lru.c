/* class: deadlock (lock order, two locks); fails by: deadlock; cause: insert takes the cache lock and then the LRU lock, evict takes them the other way round */
#include <pthread.h>
#include <stdatomic.h>

#define N 8

static struct { pthread_mutex_t lock; int used[N]; int count; } cache = { PTHREAD_MUTEX_INITIALIZER };
static struct { pthread_mutex_t lock; int age[N]; int clock; } lru = { PTHREAD_MUTEX_INITIALIZER };
static atomic_int inserts;

static void insert(int key)
{
    pthread_mutex_lock(&cache.lock);              // CAUSE
    if (!cache.used[key]) {
        cache.used[key] = 1;
        cache.count++;
        pthread_mutex_lock(&lru.lock);            // CAUSE
        lru.age[key] = ++lru.clock;
        pthread_mutex_unlock(&lru.lock);
    }
    pthread_mutex_unlock(&cache.lock);
    atomic_fetch_add(&inserts, 1);
}

static void evict(void)
{
    int oldest = -1;
    pthread_mutex_lock(&lru.lock);                // CAUSE
    for (int i = 0; i < N; i++)
        if (lru.age[i] && (oldest < 0 || lru.age[i] < lru.age[oldest]))
            oldest = i;
    if (oldest >= 0) {
        pthread_mutex_lock(&cache.lock);          // CAUSE
        cache.used[oldest] = 0;
        cache.count--;
        lru.age[oldest] = 0;
        pthread_mutex_unlock(&cache.lock);
    }
    pthread_mutex_unlock(&lru.lock);
}

static void *loader(void *arg)
{
    for (int i = 3; i < N; i++)
        insert(i);
    return NULL;
}

static void *cleaner(void *arg)
{
    evict();
    evict();
    return NULL;
}

int main(void)
{
    pthread_t l, c;
    for (int i = 0; i < 3; i++)
        insert(i);
    pthread_create(&l, NULL, loader, NULL);
    pthread_create(&c, NULL, cleaner, NULL);
    pthread_join(l, NULL);
    pthread_join(c, NULL);
    return cache.count != N - 2 || atomic_load(&inserts) != N;
}
