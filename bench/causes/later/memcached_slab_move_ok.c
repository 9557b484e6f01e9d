/* correct twin of memcached_slab_move: the count is looked at under the lock under which references are taken */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define KEYS 3
#define CHUNKS (2 * KEYS)
#define VALUE 12
#define GETTERS 2
#define GETS 3

struct item {
    int key;
    atomic_int refs;
    unsigned char value[VALUE];
};

static struct item chunk[CHUNKS];
static int where[KEYS];                 /* the chunk of each key */
static pthread_mutex_t item_lock = PTHREAD_MUTEX_INITIALIZER;

static struct item *item_get(int key)
{
    pthread_mutex_lock(&item_lock);
    struct item *it = &chunk[where[key]];
    atomic_fetch_add(&it->refs, 1);
    pthread_mutex_unlock(&item_lock);
    return it;
}

static void item_put(struct item *it)
{
    atomic_fetch_sub(&it->refs, 1);
}

/* moves one item out of the old page; returns 0 when it is in use */
static int move_item(int key)
{
    struct item *to = &chunk[KEYS + key];
    struct item *from = &chunk[key];
    pthread_mutex_lock(&item_lock);
    if (atomic_load(&from->refs) != 0) {
        pthread_mutex_unlock(&item_lock);
        return 0;
    }
    to->key = key;
    memcpy(to->value, from->value, VALUE);
    where[key] = KEYS + key;
    for (int i = 0; i < VALUE; i++)
        from->value[i] = 0;
    pthread_mutex_unlock(&item_lock);
    return 1;
}

static void *rebalancer(void *arg)
{
    (void)arg;
    for (int key = 0; key < KEYS; key++)
        while (!move_item(key))
            sched_yield();
    return NULL;
}

static int value_sum(int key)
{
    return VALUE * (key + 1) * 7;
}

static void *getter(void *arg)
{
    int *wrong = arg;
    for (int n = 0; n < GETS; n++)
        for (int key = 0; key < KEYS; key++) {
            struct item *it = item_get(key);
            int sum = 0;
            for (int i = 0; i < VALUE; i++)
                sum += it->value[i];
            item_put(it);
            if (sum != value_sum(key))
                ++*wrong;
        }
    return NULL;
}

int main(void)
{
    pthread_t r, g[GETTERS];
    int wrong[GETTERS] = { 0 }, all = 0;
    for (int key = 0; key < KEYS; key++) {
        chunk[key].key = key;
        memset(chunk[key].value, (key + 1) * 7, VALUE);
        where[key] = key;
    }
    pthread_create(&r, NULL, rebalancer, NULL);
    for (int i = 0; i < GETTERS; i++)
        pthread_create(&g[i], NULL, getter, &wrong[i]);
    pthread_join(r, NULL);
    for (int i = 0; i < GETTERS; i++) {
        pthread_join(g[i], NULL);
        all += wrong[i];
    }
    printf("%d wrong values\n", all);
    return all != 0;
}
