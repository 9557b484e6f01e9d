/* class: order violation (use after free); fails by: assert; cause: a thread-pool worker counts a task on its request only after it has left the queue, so that the event loop finds the request neither queued nor blocked and frees it */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NREQ 4
#define ALIVE 0x6e67696e
#define DEAD 0x66726565

struct request {
    struct request *next;
    long pad;
    volatile int magic;
    int id;
    atomic_int blocked;
    char body[24];
};

static pthread_mutex_t qlock = PTHREAD_MUTEX_INITIALIZER;
static struct request *first, **last = &first;
static atomic_int queued, stop;
static atomic_int served;

static struct request *create_request(int id)
{
    struct request *r = calloc(1, sizeof *r);
    r->magic = ALIVE;
    r->id = id;
    return r;
}

static void free_request(struct request *r)
{
    r->magic = DEAD;
    free(r);                                      // CAUSE
}

static void post_task(struct request *r)
{
    pthread_mutex_lock(&qlock);
    r->next = NULL;
    *last = r;
    last = &r->next;
    atomic_fetch_add(&queued, 1);
    pthread_mutex_unlock(&qlock);
}

static struct request *next_task(void)
{
    struct request *r;
    pthread_mutex_lock(&qlock);
    r = first;
    if (r) {
        first = r->next;
        if (!first)
            last = &first;
        atomic_fetch_sub(&queued, 1);
    }
    pthread_mutex_unlock(&qlock);
    return r;
}

static void *pool_thread(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        struct request *r = next_task();
        if (!r) {
            sched_yield();
            continue;
        }
        atomic_fetch_add(&r->blocked, 1);         // CAUSE
        assert(r->magic == ALIVE);
        memset(r->body, 'a' + r->id, sizeof r->body);
        atomic_fetch_add(&served, 1);
        atomic_fetch_sub(&r->blocked, 1);
    }
    return NULL;
}

static void close_request(struct request *r)
{
    while (atomic_load(&queued) > 0)
        sched_yield();
    while (atomic_load(&r->blocked) > 0)          // CAUSE
        sched_yield();
    free_request(r);
}

int main(void)
{
    pthread_t t;
    pthread_create(&t, NULL, pool_thread, NULL);
    for (int i = 0; i < NREQ; i++) {
        struct request *r = create_request(i);
        post_task(r);
        close_request(r);
    }
    while (atomic_load(&served) < NREQ)
        sched_yield();
    atomic_store(&stop, 1);
    pthread_join(t, NULL);
    return 0;
}
