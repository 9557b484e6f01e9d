/* correct twin of glibc_sem_post: post reads from the semaphore only before it raises the value */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define CLIENTS 2
#define REQUESTS 4
#define TOTAL (CLIENTS * REQUESTS)

/* sleepers are queued apart from the semaphores, as with futexes, and stay for the whole run */
struct bucket {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};

struct semaphore {
    atomic_int value;
    struct bucket *bucket;
};

struct request {
    struct request *next;
    int number, answer;
    struct semaphore done;
};

static struct bucket buckets[CLIENTS];

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct request *list;
} inbox = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL };

static int semaphore_try(struct semaphore *s)
{
    int v = atomic_load(&s->value);
    while (v > 0)
        if (atomic_compare_exchange_strong(&s->value, &v, v - 1))
            return 1;
    return 0;
}

static void semaphore_wait(struct semaphore *s)
{
    if (semaphore_try(s))
        return;
    struct bucket *b = s->bucket;
    pthread_mutex_lock(&b->mutex);
    while (!semaphore_try(s))
        pthread_cond_wait(&b->cond, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

static void semaphore_post(struct semaphore *s)
{
    struct bucket *b = s->bucket;
    atomic_fetch_add(&s->value, 1);
    pthread_mutex_lock(&b->mutex);
    pthread_cond_broadcast(&b->cond);
    pthread_mutex_unlock(&b->mutex);
}

static void semaphore_destroy(struct semaphore *s)
{
    s->bucket = NULL;
}

static void *server(void *arg)
{
    (void)arg;
    for (int served = 0; served < TOTAL; served++) {
        pthread_mutex_lock(&inbox.mutex);
        while (!inbox.list)
            pthread_cond_wait(&inbox.cond, &inbox.mutex);
        struct request *r = inbox.list;
        inbox.list = r->next;
        pthread_mutex_unlock(&inbox.mutex);
        r->answer = r->number * r->number;
        semaphore_post(&r->done);
    }
    return NULL;
}

static void *client(void *arg)
{
    int id = *(int *)arg;
    static struct request requests[CLIENTS][REQUESTS];
    static int sums[CLIENTS];
    for (int i = 0; i < REQUESTS; i++) {
        struct request *r = &requests[id][i];
        r->number = id * 10 + i;
        r->done.bucket = &buckets[id];
        pthread_mutex_lock(&inbox.mutex);
        r->next = inbox.list;
        inbox.list = r;
        pthread_cond_signal(&inbox.cond);
        pthread_mutex_unlock(&inbox.mutex);
        semaphore_wait(&r->done);
        sums[id] += r->answer;
        semaphore_destroy(&r->done);
    }
    return &sums[id];
}

int main(void)
{
    pthread_t s, c[CLIENTS];
    int id[CLIENTS], sum = 0, expected = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_mutex_init(&buckets[i].mutex, NULL);
        pthread_cond_init(&buckets[i].cond, NULL);
        for (int n = 0; n < REQUESTS; n++)
            expected += (i * 10 + n) * (i * 10 + n);
    }
    pthread_create(&s, NULL, server, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        id[i] = i;
        pthread_create(&c[i], NULL, client, &id[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        void *result;
        pthread_join(c[i], &result);
        sum += *(int *)result;
    }
    pthread_join(s, NULL);
    printf("sum %d, expected %d\n", sum, expected);
    return sum != expected;
}
