/* class: shutdown flag; fails by: exit; cause: a worker tests the stop flag and then enqueues; the main thread sets the flag
 * and drains the queue in between, so that the accepted job is never done.
 * Modelled on stop flags of worker pools (Memcached's maintenance threads, Apache's worker queue termination). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define CAP 16

struct work_queue {
    pthread_mutex_t lock;
    int jobs[CAP];
    int count;
    int done;
};

static struct work_queue wq = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_int stopping;
static atomic_int accepted, rejected;

static int submit(struct work_queue *q, int job)
{
    if (atomic_load(&stopping)) { // CAUSE
        atomic_fetch_add(&rejected, 1);
        return -1;
    }
    pthread_mutex_lock(&q->lock);
    q->jobs[q->count++] = job; // CAUSE
    pthread_mutex_unlock(&q->lock);
    atomic_fetch_add(&accepted, 1);
    return 0;
}

static void drain(struct work_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->count > 0) { // CAUSE
        q->count--;
        q->done++;
    }
    pthread_mutex_unlock(&q->lock);
}

static void shut_down(struct work_queue *q)
{
    atomic_store(&stopping, 1); // CAUSE
    drain(q);
}

static void *client(void *arg)
{
    int first = (int)(long)arg;
    for (int i = 0; i < 3; i++)
        if (submit(&wq, first + i) < 0)
            break;
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, client, (void *)(10 * i));
    for (int i = 0; i < 2; i++)
        drain(&wq);
    shut_down(&wq);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("%d accepted, %d rejected, %d done\n", atomic_load(&accepted), atomic_load(&rejected), wq.done);
    return wq.done != atomic_load(&accepted);
}
