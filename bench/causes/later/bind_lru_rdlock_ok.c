/* correct twin of bind_lru_rdlock: a lookup holds the lock for writing, as it changes the order of use */
#include <pthread.h>
#include <stdio.h>

#define ENTRIES 6
#define RESOLVERS 2
#define LOOKUPS 8
#define REFRESHES 3

static struct {
    pthread_rwlock_t lock;
    int ttl[ENTRIES];
    int order[ENTRIES];                 /* of use, the last used first */
} cache = { .lock = PTHREAD_RWLOCK_INITIALIZER };

static int find(int name)
{
    for (int i = 0; i < ENTRIES; i++)
        if (cache.order[i] == name)
            return i;
    return -1;
}

static void touch(int at, int name)
{
    for (int i = at; i > 0; i--)
        cache.order[i] = cache.order[i - 1];
    cache.order[0] = name;
}

static int lookup(int name)
{
    int ttl = -1;
    pthread_rwlock_wrlock(&cache.lock);
    int at = find(name);
    if (at >= 0) {
        ttl = cache.ttl[name];
        touch(at, name);
    }
    pthread_rwlock_unlock(&cache.lock);
    return ttl;
}

static void refresh(int by)
{
    pthread_rwlock_wrlock(&cache.lock);
    for (int i = 0; i < ENTRIES; i++)
        cache.ttl[i] += by;
    pthread_rwlock_unlock(&cache.lock);
}

struct resolver {
    int first;
    int misses;
};

static void *resolver_main(void *arg)
{
    struct resolver *r = arg;
    for (int i = 0; i < LOOKUPS; i++)
        if (lookup((r->first + 5 * i) % ENTRIES) < 0)
            r->misses++;
    return NULL;
}

static void *refresher(void *arg)
{
    (void)arg;
    for (int i = 0; i < REFRESHES; i++)
        refresh(10 + i);
    return NULL;
}

int main(void)
{
    pthread_t t[RESOLVERS], f;
    struct resolver r[RESOLVERS];
    int misses = 0, lost = 0;
    for (int i = 0; i < ENTRIES; i++) {
        cache.ttl[i] = 30;
        cache.order[i] = i;
    }
    for (int i = 0; i < RESOLVERS; i++) {
        r[i].first = 3 * i;
        r[i].misses = 0;
        pthread_create(&t[i], NULL, resolver_main, &r[i]);
    }
    pthread_create(&f, NULL, refresher, NULL);
    for (int i = 0; i < RESOLVERS; i++) {
        pthread_join(t[i], NULL);
        misses += r[i].misses;
    }
    pthread_join(f, NULL);
    for (int i = 0; i < ENTRIES; i++)
        lost += find(i) < 0;
    printf("%d misses, %d entries lost\n", misses, lost);
    return misses != 0 || lost != 0;
}
