/* class: order violation (used before made); fails by: SIGSEGV; cause: the client lets its threads go before it stores the adaptor in the handle, and a thread that is quick enough reads a null pointer */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PINGS 3

struct adaptor_threads {
    pthread_t io, completion;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int threads_running;
    int pending;
};

struct zhandle {
    _Atomic(struct adaptor_threads *) adaptor_priv;
    atomic_int state;
    int xid;
    int completed;
    pthread_mutex_t gate;
    pthread_cond_t gate_open;
};

static struct zhandle zh = { .gate = PTHREAD_MUTEX_INITIALIZER, .gate_open = PTHREAD_COND_INITIALIZER };

static void wait_for_start(struct zhandle *zh)
{
    pthread_mutex_lock(&zh->gate);
    while (!atomic_load(&zh->state))
        pthread_cond_wait(&zh->gate_open, &zh->gate);
    pthread_mutex_unlock(&zh->gate);
}

static void start_threads(struct zhandle *zh)
{
    pthread_mutex_lock(&zh->gate);
    atomic_store(&zh->state, 1);
    pthread_cond_broadcast(&zh->gate_open);
    pthread_mutex_unlock(&zh->gate);
}

static struct adaptor_threads *adaptor_of(struct zhandle *zh)
{
    return atomic_load(&zh->adaptor_priv);        // CAUSE
}

static void notify_thread_ready(struct zhandle *zh)
{
    struct adaptor_threads *a = adaptor_of(zh);
    pthread_mutex_lock(&a->lock);
    a->threads_running++;
    pthread_cond_broadcast(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

static void *do_io(void *arg)
{
    struct zhandle *zh = arg;
    wait_for_start(zh);
    notify_thread_ready(zh);
    struct adaptor_threads *a = adaptor_of(zh);
    for (int i = 0; i < PINGS; i++) {
        pthread_mutex_lock(&a->lock);
        zh->xid++;
        a->pending++;
        pthread_cond_broadcast(&a->cond);
        pthread_mutex_unlock(&a->lock);
    }
    return NULL;
}

static void *do_completion(void *arg)
{
    struct zhandle *zh = arg;
    wait_for_start(zh);
    notify_thread_ready(zh);
    struct adaptor_threads *a = adaptor_of(zh);
    pthread_mutex_lock(&a->lock);
    while (zh->completed < PINGS) {
        while (a->pending == 0)
            pthread_cond_wait(&a->cond, &a->lock);
        zh->completed += a->pending;
        a->pending = 0;
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void adaptor_init(struct zhandle *zh)
{
    struct adaptor_threads *a = calloc(1, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->cond, NULL);
    pthread_create(&a->io, NULL, do_io, zh);
    pthread_create(&a->completion, NULL, do_completion, zh);
    start_threads(zh);
    atomic_store(&zh->adaptor_priv, a);           // CAUSE
    pthread_mutex_lock(&a->lock);
    while (a->threads_running < 2)
        pthread_cond_wait(&a->cond, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

int main(void)
{
    adaptor_init(&zh);
    struct adaptor_threads *a = adaptor_of(&zh);
    pthread_join(a->io, NULL);
    pthread_join(a->completion, NULL);
    printf("%d of %d completed\n", zh.completed, zh.xid);
    free(a);
    return zh.completed != PINGS;
}
