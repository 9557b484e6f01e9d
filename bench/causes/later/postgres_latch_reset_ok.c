/* correct twin of postgres_latch_reset: the latch is reset before the look for requests */
#include <pthread.h>
#include <stdio.h>

#define BACKENDS 2
#define REQUESTS 3
#define TOTAL (BACKENDS * REQUESTS)

struct latch {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int is_set;
};

static struct latch latch = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t done_cond;
    int asked[BACKENDS];
    int done[BACKENDS];
} shared = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 }, { 0 } };

static int pages_written;

static void latch_set(struct latch *l)
{
    pthread_mutex_lock(&l->mutex);
    l->is_set = 1;
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->mutex);
}

static void latch_wait(struct latch *l)
{
    pthread_mutex_lock(&l->mutex);
    while (!l->is_set)
        pthread_cond_wait(&l->cond, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
}

static void latch_reset(struct latch *l)
{
    pthread_mutex_lock(&l->mutex);
    l->is_set = 0;
    pthread_mutex_unlock(&l->mutex);
}

/* returns the number of requests that were served */
static int serve_requests(void)
{
    int served = 0;
    pthread_mutex_lock(&shared.mutex);
    for (int b = 0; b < BACKENDS; b++)
        if (shared.asked[b] > shared.done[b]) {
            int n = shared.asked[b] - shared.done[b];
            pages_written += n * (10 + b);
            shared.done[b] += n;
            served += n;
        }
    if (served)
        pthread_cond_broadcast(&shared.done_cond);
    pthread_mutex_unlock(&shared.mutex);
    return served;
}

static void *checkpointer(void *arg)
{
    int served = 0;
    (void)arg;
    while (served < TOTAL) {
        latch_wait(&latch);
        latch_reset(&latch);
        served += serve_requests();
    }
    return NULL;
}

static void *backend(void *arg)
{
    int b = *(int *)arg;
    for (int i = 0; i < REQUESTS; i++) {
        pthread_mutex_lock(&shared.mutex);
        shared.asked[b]++;
        pthread_mutex_unlock(&shared.mutex);
        latch_set(&latch);
    }
    pthread_mutex_lock(&shared.mutex);
    while (shared.done[b] < REQUESTS)
        pthread_cond_wait(&shared.done_cond, &shared.mutex);
    pthread_mutex_unlock(&shared.mutex);
    return NULL;
}

int main(void)
{
    pthread_t c, t[BACKENDS];
    int id[BACKENDS];
    pthread_create(&c, NULL, checkpointer, NULL);
    for (int b = 0; b < BACKENDS; b++) {
        id[b] = b;
        pthread_create(&t[b], NULL, backend, &id[b]);
    }
    for (int b = 0; b < BACKENDS; b++)
        pthread_join(t[b], NULL);
    pthread_join(c, NULL);
    printf("%d pages written\n", pages_written);
    return pages_written != REQUESTS * (10 + 11);
}
