/* correct twin of rwr_cache: key and value are read in one critical section */
#include <pthread.h>
#include <stdio.h>

#define SLOTS 4

struct slot { pthread_mutex_t lock; int key; long value; };
struct stats { pthread_mutex_t lock; int hits, misses; };

static struct slot cache[SLOTS];
static struct stats stats = { PTHREAD_MUTEX_INITIALIZER, 0, 0 };

static long compute(int key) { return 1000L * key + key % 7; }

static void account(int hit)
{
    pthread_mutex_lock(&stats.lock);
    if (hit) stats.hits++; else stats.misses++;
    pthread_mutex_unlock(&stats.lock);
}

static long lookup(int key)
{
    struct slot *s = &cache[key % SLOTS];
    long v;

    pthread_mutex_lock(&s->lock);
    if (s->key == key) {
        v = s->value;
        pthread_mutex_unlock(&s->lock);
        account(1);
        return v;
    }
    s->key = key;
    s->value = compute(key);
    v = s->value;
    pthread_mutex_unlock(&s->lock);
    account(0);
    return v;
}

static void *client(void *arg)
{
    const int *keys = arg;
    for (int i = 0; i < 6; i++)
        if (lookup(keys[i]) != compute(keys[i]))
            return (void *)1;
    return NULL;
}

int main(void)
{
    static int a[] = { 1, 1, 2, 2, 3, 1 }, b[] = { 3, 2, 5, 3, 5, 6 };
    pthread_t t[2];
    void *bad[2];
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&cache[i].lock, NULL);
    pthread_create(&t[0], NULL, client, a);
    pthread_create(&t[1], NULL, client, b);
    pthread_join(t[0], &bad[0]);
    pthread_join(t[1], &bad[1]);
    return bad[0] || bad[1] || stats.hits + stats.misses != 12;
}
