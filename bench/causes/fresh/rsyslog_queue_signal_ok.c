/* correct twin of rsyslog_queue_signal: a worker wakes all waiters */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define CAP 1
#define MSGS 5
#define WORKERS 2

struct msg { int severity, id; };

static struct {
    pthread_mutex_t mut;
    pthread_cond_t cond;
    struct msg q[CAP];
    int first, size, closed;
} mq = { .mut = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static int written[WORKERS];
static long checksum[WORKERS];

static void flow_control(void)
{
    int full = 1;
    for (int i = 0; i < 12 && full; i++) {
        pthread_mutex_lock(&mq.mut);
        full = mq.size == CAP;
        pthread_mutex_unlock(&mq.mut);
        if (full)
            sched_yield();
    }
}

static void enqueue(int severity, int id)
{
    pthread_mutex_lock(&mq.mut);
    while (mq.size == CAP)
        pthread_cond_wait(&mq.cond, &mq.mut);
    mq.q[(mq.first + mq.size) % CAP] = (struct msg){ severity, id };
    mq.size++;
    pthread_cond_signal(&mq.cond);
    pthread_mutex_unlock(&mq.mut);
}

static int dequeue(struct msg *m)
{
    int ok = 0;
    pthread_mutex_lock(&mq.mut);
    while (mq.size == 0 && !mq.closed)
        pthread_cond_wait(&mq.cond, &mq.mut);
    if (mq.size > 0) {
        *m = mq.q[mq.first];
        mq.first = (mq.first + 1) % CAP;
        mq.size--;
        ok = 1;
        pthread_cond_broadcast(&mq.cond);
    }
    pthread_mutex_unlock(&mq.mut);
    return ok;
}

static void close_queue(void)
{
    pthread_mutex_lock(&mq.mut);
    mq.closed = 1;
    pthread_cond_broadcast(&mq.cond);
    pthread_mutex_unlock(&mq.mut);
}

static void *worker(void *arg)
{
    int id = (int)(long)arg;
    struct msg m;
    while (dequeue(&m)) {
        written[id]++;
        checksum[id] += m.id * 8 + m.severity;
    }
    return NULL;
}

int main(void)
{
    pthread_t t[WORKERS];
    int n = 0;
    long sum = 0, want = 0;
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < MSGS; i++) {
        flow_control();
        enqueue(i % 8, i);
        want += i * 8 + i % 8;
    }
    close_queue();
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(t[i], NULL);
        n += written[i];
        sum += checksum[i];
    }
    printf("%d messages\n", n);
    return n != MSGS || sum != want;
}
