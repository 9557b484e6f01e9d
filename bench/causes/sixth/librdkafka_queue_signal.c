/* class: missed notify_all, one condition for two kinds of waiters; fails by: deadlock; cause: the flusher and the broker thread wait on one condition, the producer's single signal for a new request wakes the flusher, which sees it outstanding and waits again, and the broker sleeps on */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

enum { REQUESTS = 5 };

struct request {
    int type, payload, result;
    sem_t reply;
    struct request *next;
};

struct rd_queue {
    pthread_mutex_t lock;
    pthread_cond_t cond;         /* a request arrived, or none is outstanding */
    struct request *head, **tail;
    int outstanding;             /* begun and not yet answered */
    int terminate;
};

static struct rd_queue q = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &q.head, 0, 0
};
static struct request reqs[REQUESTS];
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned stat_tx, stat_flushes;

static void request_begin(struct rd_queue *rkq, struct request *r, int i) {
    pthread_mutex_lock(&rkq->lock);
    rkq->outstanding++;
    pthread_mutex_unlock(&rkq->lock);
    r->type = i % 2;
    r->payload = 10 + i;
    sem_init(&r->reply, 0, 0);
}

static void request_send(struct rd_queue *rkq, struct request *r) {
    pthread_mutex_lock(&rkq->lock);
    r->next = NULL;
    *rkq->tail = r;
    rkq->tail = &r->next;
    pthread_cond_signal(&rkq->cond); // CAUSE
    pthread_mutex_unlock(&rkq->lock);
}

static struct request *q_pop(struct rd_queue *rkq) {
    pthread_mutex_lock(&rkq->lock);
    while (!rkq->head && !rkq->terminate)
        pthread_cond_wait(&rkq->cond, &rkq->lock); // CAUSE
    struct request *r = rkq->head;
    if (r) {
        rkq->head = r->next;
        if (!rkq->head)
            rkq->tail = &rkq->head;
    }
    pthread_mutex_unlock(&rkq->lock);
    return r;
}

static void q_done(struct rd_queue *rkq, struct request *r) {
    pthread_mutex_lock(&rkq->lock);
    if (--rkq->outstanding == 0)
        pthread_cond_broadcast(&rkq->cond);
    pthread_mutex_unlock(&rkq->lock);
    sem_post(&r->reply);
}

static void *flusher_thread(void *arg) {
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&q.lock);
        while (q.outstanding > 0)
            pthread_cond_wait(&q.cond, &q.lock); // CAUSE
        pthread_mutex_unlock(&q.lock);
        pthread_mutex_lock(&stat_lock);
        stat_flushes++;
        pthread_mutex_unlock(&stat_lock);
    }
    return arg;
}

static void *broker_thread(void *arg) {
    struct request *r;
    while ((r = q_pop(&q)) != NULL) {
        unsigned c = (unsigned)r->payload;
        for (int i = 0; i < 8; i++)
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        r->result = c ? 2 * r->payload : 0;
        pthread_mutex_lock(&stat_lock);
        stat_tx++;
        pthread_mutex_unlock(&stat_lock);
        q_done(&q, r);
    }
    return arg;
}

static void *producer_thread(void *arg) {
    long sum = 0;
    (void)arg;
    for (int i = 0; i < REQUESTS; i++) {
        request_begin(&q, &reqs[i], i);
        request_send(&q, &reqs[i]);
        while (sem_wait(&reqs[i].reply) != 0)
            ;
        sum += reqs[i].result;
    }
    return (void *)sum;
}

int main(void) {
    pthread_t b, p, f;
    void *sum;
    pthread_create(&b, NULL, broker_thread, NULL);
    pthread_create(&p, NULL, producer_thread, NULL);
    pthread_create(&f, NULL, flusher_thread, NULL);
    pthread_join(p, &sum);
    pthread_join(f, NULL);
    pthread_mutex_lock(&q.lock);
    q.terminate = 1;
    pthread_cond_broadcast(&q.cond);
    pthread_mutex_unlock(&q.lock);
    pthread_join(b, NULL);
    printf("sum %ld, tx %u, flushes %u\n", (long)sum, stat_tx, stat_flushes);
    return (long)sum == 120 && stat_flushes == 2 ? 0 : 1;
}
