/* correct twin of libuv_async_pending: the loop clears the pending mark before it runs the callback */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#define SENDERS 2
#define PER 4
#define ITEMS (SENDERS * PER)

struct async { atomic_int pending; void (*cb)(struct async *); };

static sem_t wakeup_fd;
static pthread_mutex_t qlock = PTHREAD_MUTEX_INITIALIZER;
static int queue[ITEMS], qhead, qtail;
static int handled;
static long sum;

static int pop(int *v)
{
    int ok;
    pthread_mutex_lock(&qlock);
    ok = qhead < qtail;
    if (ok)
        *v = queue[qhead++];
    pthread_mutex_unlock(&qlock);
    return ok;
}

static void push(int v)
{
    pthread_mutex_lock(&qlock);
    queue[qtail] = v;
    qtail++;
    pthread_mutex_unlock(&qlock);
}

static void async_send(struct async *h)
{
    if (atomic_exchange(&h->pending, 1) == 0)
        sem_post(&wakeup_fd);
}

static void on_async(struct async *h)
{
    int v;
    (void)h;
    while (pop(&v)) {
        sum += v;
        handled++;
    }
}

static struct async handle = { 0, on_async };

static void async_io(struct async *h)
{
    if (!atomic_load(&h->pending))
        return;
    atomic_store(&h->pending, 0);
    h->cb(h);
}

static void *loop_run(void *arg)
{
    (void)arg;
    while (handled < ITEMS) {
        sem_wait(&wakeup_fd);
        async_io(&handle);
    }
    return NULL;
}

static void *sender(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < PER; i++) {
        push(id * 10 + i);
        async_send(&handle);
    }
    return NULL;
}

int main(void)
{
    pthread_t loop, t[SENDERS];
    sem_init(&wakeup_fd, 0, 0);
    pthread_create(&loop, NULL, loop_run, NULL);
    for (long i = 0; i < SENDERS; i++)
        pthread_create(&t[i], NULL, sender, (void *)(i + 1));
    for (int i = 0; i < SENDERS; i++)
        pthread_join(t[i], NULL);
    pthread_join(loop, NULL);
    printf("sum %ld\n", sum);
    return sum != 132;
}
