/* class: order violation (used after destroyed); fails by: segv; cause: main deletes the queue and clears fifo->mut
 * when all blocks are written, while a consumer comes back to lock fifo->mut once more.
 * Modelled on pbzip2 0.9.4 (queueDelete before the consumers have ended). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 4

struct queue {
    int buf[BLOCKS];
    int head, tail;
    pthread_mutex_t *mut;
    pthread_cond_t not_empty;
};

static struct queue *fifo;
static pthread_mutex_t out_mut = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t out_cond = PTHREAD_COND_INITIALIZER;
static int written, out_sum;

static void queue_delete(struct queue *q)
{
    pthread_mutex_t *m = q->mut;
    q->mut = NULL; // CAUSE
    pthread_mutex_destroy(m);
    free(m);
}

static void *consumer(void *arg)
{
    (void)arg;
    for (;;) {
        pthread_mutex_lock(fifo->mut); // CAUSE
        if (fifo->head == BLOCKS) {
            pthread_mutex_unlock(fifo->mut); // CAUSE
            return NULL;
        }
        while (fifo->head == fifo->tail)
            pthread_cond_wait(&fifo->not_empty, fifo->mut);
        int block = fifo->buf[fifo->head++];
        pthread_mutex_unlock(fifo->mut);
        pthread_mutex_lock(&out_mut);
        written++;
        out_sum += block * block;
        pthread_cond_signal(&out_cond);
        pthread_mutex_unlock(&out_mut);
    }
}

static void produce(void)
{
    for (int i = 1; i <= BLOCKS; i++) {
        pthread_mutex_lock(fifo->mut);
        fifo->buf[fifo->tail++] = i;
        pthread_cond_signal(&fifo->not_empty);
        pthread_mutex_unlock(fifo->mut);
    }
}

int main(void)
{
    pthread_t t;
    fifo = calloc(1, sizeof *fifo);
    fifo->mut = malloc(sizeof *fifo->mut);
    pthread_mutex_init(fifo->mut, NULL);
    pthread_cond_init(&fifo->not_empty, NULL);
    pthread_create(&t, NULL, consumer, NULL);
    produce();
    pthread_mutex_lock(&out_mut);
    while (written < BLOCKS)
        pthread_cond_wait(&out_cond, &out_mut);
    pthread_mutex_unlock(&out_mut);
    queue_delete(fifo);
    pthread_join(t, NULL);
    printf("%d blocks, %d\n", written, out_sum);
    return out_sum != 30;
}
