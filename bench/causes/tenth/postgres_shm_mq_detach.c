/* class: order violation (two reads of related words); fails by: wrong result; cause: the receiver reads that no more bytes have been written, the sender then writes its last message and detaches, and the receiver sees the detached flag and gives up with the message still in the queue */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RING_SIZE = 64, MESSAGES = 3 };
enum mq_result { SHM_MQ_SUCCESS, SHM_MQ_WOULD_BLOCK, SHM_MQ_DETACHED };

struct tuple {
    int32_t worker, value;
};

static struct shm_mq {
    atomic_uint_least64_t mq_bytes_read, mq_bytes_written;
    atomic_int mq_detached;
    sem_t latch;
    char ring[RING_SIZE];
} mq;

/* never more than the ring holds */
static void shm_mq_send(const struct tuple *t) {
    uint64_t written = atomic_load_explicit(&mq.mq_bytes_written, memory_order_relaxed);
    memcpy(&mq.ring[written % RING_SIZE], t, sizeof *t);
    atomic_store_explicit(&mq.mq_bytes_written, written + sizeof *t, memory_order_release); // CAUSE
    sem_post(&mq.latch);
}

static void shm_mq_detach(void) {
    atomic_store_explicit(&mq.mq_detached, 1, memory_order_release); // CAUSE
    sem_post(&mq.latch);
}

static enum mq_result shm_mq_receive(struct tuple *t) {
    uint64_t nread = atomic_load_explicit(&mq.mq_bytes_read, memory_order_relaxed);
    uint64_t written = atomic_load_explicit(&mq.mq_bytes_written, memory_order_acquire); // CAUSE
    if (written - nread < sizeof *t) {
        if (atomic_load_explicit(&mq.mq_detached, memory_order_acquire)) // CAUSE
            return SHM_MQ_DETACHED;
        return SHM_MQ_WOULD_BLOCK;
    }
    memcpy(t, &mq.ring[nread % RING_SIZE], sizeof *t);
    atomic_store_explicit(&mq.mq_bytes_read, nread + sizeof *t, memory_order_release);
    return SHM_MQ_SUCCESS;
}

static void *parallel_worker(void *arg) {
    struct tuple t = { .worker = 1 };
    (void)arg;
    for (int i = 1; i <= MESSAGES; i++) {
        t.value = i * i;
        shm_mq_send(&t);
    }
    shm_mq_detach();
    return NULL;
}

static int gather(int *tuples) {
    struct tuple t;
    int sum = 0;
    for (;;) {
        switch (shm_mq_receive(&t)) {
        case SHM_MQ_SUCCESS:
            sum += t.value;
            ++*tuples;
            break;
        case SHM_MQ_WOULD_BLOCK:
            sem_wait(&mq.latch);
            break;
        case SHM_MQ_DETACHED:
            return sum;
        }
    }
}

int main(void) {
    pthread_t worker;
    int tuples = 0;
    sem_init(&mq.latch, 0, 0);
    pthread_create(&worker, NULL, parallel_worker, NULL);
    int sum = gather(&tuples);
    pthread_join(worker, NULL);
    sem_destroy(&mq.latch);
    printf("%d tuples, sum %d\n", tuples, sum);
    return tuples == MESSAGES && sum == 14 ? 0 : 1;
}
