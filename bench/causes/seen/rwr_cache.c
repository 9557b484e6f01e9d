/* class: atomicity rwr; fails by: exit; cause: the lookup compares the key of a slot in one critical section and reads its value in another, and the slot is refilled for another key in between */
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
    if (s->key == key) {                          // CAUSE
        pthread_mutex_unlock(&s->lock);
        account(1);
        pthread_mutex_lock(&s->lock);
        v = s->value;                             // CAUSE
        pthread_mutex_unlock(&s->lock);
        return v;
    }
    s->key = key;                                 // CAUSE
    s->value = compute(key);                      // CAUSE
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
