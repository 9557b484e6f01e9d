/* Twin of curl_conncache: a connection in use is not pruned. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct conn {
    long host;
    int in_use;
    int requests;
};

static struct conn *cache[2];
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

static struct conn *conn_new(long host)
{
    struct conn *c = malloc(sizeof *c);
    c->host = host;
    c->in_use = 0;
    c->requests = 0;
    return c;
}

static struct conn *conn_find(int slot)
{
    pthread_mutex_lock(&cache_lock);
    struct conn *c = cache[slot];
    if (c)
        c->in_use++;
    pthread_mutex_unlock(&cache_lock);
    return c;
}

static void conn_done(struct conn *c)
{
    pthread_mutex_lock(&cache_lock);
    c->in_use--;
    c->requests++;
    pthread_mutex_unlock(&cache_lock);
}

static void conn_prune(int slot)
{
    pthread_mutex_lock(&cache_lock);
    if (cache[slot] && !cache[slot]->in_use) {
        free(cache[slot]);
        cache[slot] = NULL;
    }
    pthread_mutex_unlock(&cache_lock);
}

static void *transfer(void *arg)
{
    long misdirected = 0;
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct conn *c = conn_find(0);
        if (!c)
            break;
        if (c->host != 1001)
            misdirected++;
        conn_done(c);
    }
    return (void *)misdirected;
}

static void *other_transfer(void *arg)
{
    (void)arg;
    conn_prune(0);
    struct conn *c = conn_new(2002);
    pthread_mutex_lock(&cache_lock);
    cache[1] = c;
    pthread_mutex_unlock(&cache_lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    void *misdirected;
    cache[0] = conn_new(1001);
    pthread_create(&a, NULL, transfer, NULL);
    pthread_create(&b, NULL, other_transfer, NULL);
    pthread_join(a, &misdirected);
    pthread_join(b, NULL);
    printf("misdirected: %ld\n", (long)misdirected);
    return misdirected != NULL;
}
