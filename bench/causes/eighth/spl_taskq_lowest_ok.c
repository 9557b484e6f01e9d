/* correct twin of spl_taskq_lowest: the worker records the id of its task before it drops the lock */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, TASKS = 5 };

typedef struct taskq_ent {
    struct taskq_ent *next;
    uint64_t id;
    void (*func)(void *);
    void *arg;
} taskq_ent_t;

typedef struct taskq_thread {
    pthread_t thread;
    struct taskq *tq;
    uint64_t id;
    unsigned runs;
} taskq_thread_t;

typedef struct taskq {
    pthread_mutex_t lock;
    pthread_cond_t work_waitq, wait_waitq;
    taskq_ent_t *pend_head, **pend_tail;
    taskq_thread_t threads[THREADS];
    uint64_t next_id;
    int exiting;
} taskq_t;

static struct vdev {
    unsigned long written, flushed;
    uint64_t label_txg;
} vdevs[TASKS];

static struct {
    pthread_mutex_t lock;
    unsigned ios;
} zio_stats = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t taskq_lowest_id(taskq_t *tq) {
    uint64_t lowest = tq->next_id;
    if (tq->pend_head && tq->pend_head->id < lowest)
        lowest = tq->pend_head->id;
    for (int i = 0; i < THREADS; i++) {
        uint64_t id = __atomic_load_n(&tq->threads[i].id, __ATOMIC_ACQUIRE);
        if (id && id < lowest)
            lowest = id;
    }
    return lowest;
}

static void *taskq_thread(void *arg) {
    taskq_thread_t *tqt = arg;
    taskq_t *tq = tqt->tq;
    pthread_mutex_lock(&tq->lock);
    for (;;) {
        while (!tq->pend_head && !tq->exiting)
            pthread_cond_wait(&tq->work_waitq, &tq->lock);
        taskq_ent_t *t = tq->pend_head;
        if (!t)
            break;
        tq->pend_head = t->next;
        if (!tq->pend_head)
            tq->pend_tail = &tq->pend_head;
        __atomic_store_n(&tqt->id, t->id, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&tq->lock);
        t->func(t->arg);
        tqt->runs++;
        free(t);
        pthread_mutex_lock(&tq->lock);
        __atomic_store_n(&tqt->id, 0, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&tq->wait_waitq);
    }
    pthread_mutex_unlock(&tq->lock);
    return NULL;
}

static uint64_t taskq_dispatch(taskq_t *tq, void (*func)(void *), void *arg) {
    taskq_ent_t *t = calloc(1, sizeof *t);
    t->func = func;
    t->arg = arg;
    pthread_mutex_lock(&tq->lock);
    uint64_t id = t->id = tq->next_id++;
    *tq->pend_tail = t;
    tq->pend_tail = &t->next;
    pthread_cond_signal(&tq->work_waitq);
    pthread_mutex_unlock(&tq->lock);
    return id;
}

static void taskq_wait_outstanding(taskq_t *tq, uint64_t id) {
    pthread_mutex_lock(&tq->lock);
    while (taskq_lowest_id(tq) <= id)
        pthread_cond_wait(&tq->wait_waitq, &tq->lock);
    pthread_mutex_unlock(&tq->lock);
}

static void vdev_flush(void *arg) {
    struct vdev *vd = arg;
    unsigned long sum = 0;
    for (unsigned long b = 0; b < vd->written; b++)
        sum += b & 1;
    pthread_mutex_lock(&zio_stats.lock);
    zio_stats.ios++;
    pthread_mutex_unlock(&zio_stats.lock);
    __atomic_store_n(&vd->flushed, sum * 2, __ATOMIC_RELEASE);
}

int main(void) {
    taskq_t tq = { .lock = PTHREAD_MUTEX_INITIALIZER, .work_waitq = PTHREAD_COND_INITIALIZER,
                   .wait_waitq = PTHREAD_COND_INITIALIZER, .next_id = 1 };
    uint64_t last = 0;
    unsigned early = 0;
    tq.pend_tail = &tq.pend_head;
    for (int i = 0; i < THREADS; i++) {
        tq.threads[i].tq = &tq;
        pthread_create(&tq.threads[i].thread, NULL, taskq_thread, &tq.threads[i]);
    }
    for (int i = 0; i < TASKS; i++) {
        vdevs[i].written = 20 + 2 * (unsigned)i;
        last = taskq_dispatch(&tq, vdev_flush, &vdevs[i]);
    }
    taskq_wait_outstanding(&tq, last);
    for (int i = 0; i < TASKS; i++) {
        if (__atomic_load_n(&vdevs[i].flushed, __ATOMIC_ACQUIRE) != vdevs[i].written)
            early++;
        else
            vdevs[i].label_txg = last;
    }
    pthread_mutex_lock(&tq.lock);
    tq.exiting = 1;
    pthread_cond_broadcast(&tq.work_waitq);
    pthread_mutex_unlock(&tq.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(tq.threads[i].thread, NULL);
    if (early)
        fprintf(stderr, "labels written before %u vdevs were flushed\n", early);
    printf("ios %u\n", zio_stats.ios);
    return early == 0 && zio_stats.ios == TASKS ? 0 : 1;
}
