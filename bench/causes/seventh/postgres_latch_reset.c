/* class: lost wake-up (flag reset after the check); fails by: hang; cause: the worker finds no work and then resets its latch, a SetLatch of another process between the check and the reset is wiped out, and the worker waits for ever */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { BACKENDS = 2, ITEMS = 6, QSIZE = 16, PAGE = 32 };

typedef struct Latch {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool is_set;
} Latch;

struct shmem {
    pthread_mutex_t lock;
    unsigned queue[QSIZE];
    unsigned head, tail;
    bool shutdown_requested;
    unsigned long written;
    unsigned char page[PAGE];
};

static Latch worker_latch = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
static struct shmem shmem = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void SetLatch(Latch *l) {
    pthread_mutex_lock(&l->mutex);
    if (!l->is_set) {
        l->is_set = true; // CAUSE
        pthread_cond_signal(&l->cond);
    }
    pthread_mutex_unlock(&l->mutex);
}

static void ResetLatch(Latch *l) {
    pthread_mutex_lock(&l->mutex);
    l->is_set = false; // CAUSE
    pthread_mutex_unlock(&l->mutex);
}

static void WaitLatch(Latch *l) {
    pthread_mutex_lock(&l->mutex);
    while (!l->is_set)
        pthread_cond_wait(&l->cond, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
}

enum what { NOTHING, WORK, SHUTDOWN };

static enum what get_work(unsigned *item) {
    enum what w = NOTHING;
    pthread_mutex_lock(&shmem.lock);
    if (shmem.head != shmem.tail) { // CAUSE
        *item = shmem.queue[shmem.head++ % QSIZE];
        w = WORK;
    } else if (shmem.shutdown_requested) {
        w = SHUTDOWN;
    }
    pthread_mutex_unlock(&shmem.lock);
    return w;
}

static void write_page(unsigned item) {
    for (unsigned i = 0; i < PAGE; i++)
        shmem.page[i] = (unsigned char)(shmem.page[i] * 5 + item + i);
    shmem.written++;
}

static void *worker_main(void *arg) {
    (void)arg;
    for (;;) {
        enum what w;
        unsigned item;
        while ((w = get_work(&item)) == WORK)
            write_page(item);
        if (w == SHUTDOWN)
            return NULL;
        ResetLatch(&worker_latch);
        WaitLatch(&worker_latch);
    }
}

static void *backend_main(void *arg) {
    unsigned id = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&shmem.lock);
        shmem.queue[shmem.tail++ % QSIZE] = id * 100 + i;
        pthread_mutex_unlock(&shmem.lock);
        SetLatch(&worker_latch);
    }
    return NULL;
}

int main(void) {
    pthread_t worker, b[BACKENDS];
    pthread_create(&worker, NULL, worker_main, NULL);
    for (unsigned i = 0; i < BACKENDS; i++)
        pthread_create(&b[i], NULL, backend_main, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < BACKENDS; i++)
        pthread_join(b[i], NULL);
    pthread_mutex_lock(&shmem.lock);
    shmem.shutdown_requested = true;
    pthread_mutex_unlock(&shmem.lock);
    SetLatch(&worker_latch);
    pthread_join(worker, NULL);
    printf("written %lu\n", shmem.written);
    return shmem.written == BACKENDS * ITEMS ? 0 : 1;
}
