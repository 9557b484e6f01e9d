/* correct twin of libuv_cancel: the state is looked at and changed in one critical section */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define WORKERS 2
#define REQUESTS 8

enum state { QUEUED, RUNNING, FINISHED, CANCELLED };

struct request {
    enum state state;
    int input, result;
    atomic_int completions;
};

static struct {
    pthread_mutex_t mutex;
    int next;
    struct request request[REQUESTS];
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static atomic_int open_requests = REQUESTS;
static atomic_int done_sum;

static void complete(struct request *r)
{
    int before = atomic_fetch_add(&r->completions, 1);
    assert(before == 0);
    atomic_fetch_sub(&open_requests, 1);
}

static struct request *take_request(void)
{
    struct request *r = NULL;
    pthread_mutex_lock(&pool.mutex);
    while (!r && pool.next < REQUESTS) {
        r = &pool.request[pool.next++];
        if (r->state != QUEUED)
            r = NULL;
    }
    if (r)
        r->state = RUNNING;
    pthread_mutex_unlock(&pool.mutex);
    return r;
}

static int digits_of(int n)
{
    int sum = 0;
    for (int i = 1; i <= n; i++)
        sum = (sum * 10 + i) % 9973;
    return sum;
}

static void *worker(void *arg)
{
    struct request *r;
    (void)arg;
    while ((r = take_request())) {
        int result = digits_of(r->input);
        pthread_mutex_lock(&pool.mutex);
        r->result = result;
        r->state = FINISHED;
        pthread_mutex_unlock(&pool.mutex);
        atomic_fetch_add(&done_sum, result);
        complete(r);
    }
    return NULL;
}

static int cancel(struct request *r)
{
    pthread_mutex_lock(&pool.mutex);
    if (r->state != QUEUED) {
        pthread_mutex_unlock(&pool.mutex);
        return 0;
    }
    r->state = CANCELLED;
    pthread_mutex_unlock(&pool.mutex);
    complete(r);
    return 1;
}

static void *closer(void *arg)
{
    int *cancelled = arg;
    for (int i = REQUESTS - 1; i > 0; i -= 2)
        *cancelled += cancel(&pool.request[i]);
    return NULL;
}

int main(void)
{
    pthread_t w[WORKERS], c;
    int cancelled = 0;
    for (int i = 0; i < REQUESTS; i++)
        pool.request[i].input = 20 + i;
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&w[i], NULL, worker, NULL);
    pthread_create(&c, NULL, closer, &cancelled);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(w[i], NULL);
    pthread_join(c, NULL);
    printf("%d cancelled, sum %d, %d open\n", cancelled, atomic_load(&done_sum), atomic_load(&open_requests));
    return atomic_load(&open_requests) != 0;
}
