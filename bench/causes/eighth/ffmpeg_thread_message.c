/* class: missing wake-up (one condition variable for senders and receivers, one waiter signalled); fails by: deadlock; cause: senders and the receiver wait on the same condition variable and the signal for a new message wakes another sender, which waits again, so the receiver sleeps on */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEMUXERS = 2, PACKETS = 3 };

typedef struct AVPacket {
    int stream, pts, size;
    unsigned char data[16];
} AVPacket;

typedef struct ThreadMessageQueue {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    AVPacket *fifo;
    unsigned nb_max, nb, rd;
    int err_recv;
} ThreadMessageQueue;

typedef struct InputFile {
    int index;
    ThreadMessageQueue *queue;
    int packets;
    unsigned sent;
} InputFile;

static struct {
    pthread_mutex_t lock;
    int open_inputs;
    unsigned log_lines;
} ctx = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ThreadMessageQueue *queue_alloc(unsigned nelem) {
    ThreadMessageQueue *mq = calloc(1, sizeof *mq);
    pthread_mutex_init(&mq->lock, NULL);
    pthread_cond_init(&mq->cond, NULL);
    mq->fifo = calloc(nelem, sizeof *mq->fifo);
    mq->nb_max = nelem;
    return mq;
}

static void queue_send(ThreadMessageQueue *mq, const AVPacket *pkt) {
    pthread_mutex_lock(&mq->lock);
    while (mq->nb == mq->nb_max)
        pthread_cond_wait(&mq->cond, &mq->lock); // CAUSE
    mq->fifo[(mq->rd + mq->nb++) % mq->nb_max] = *pkt;
    pthread_cond_signal(&mq->cond); // CAUSE
    pthread_mutex_unlock(&mq->lock);
}

static int queue_recv(ThreadMessageQueue *mq, AVPacket *pkt) {
    pthread_mutex_lock(&mq->lock);
    while (!mq->err_recv && !mq->nb)
        pthread_cond_wait(&mq->cond, &mq->lock); // CAUSE
    if (!mq->nb) {
        int err = mq->err_recv;
        pthread_mutex_unlock(&mq->lock);
        return err;
    }
    *pkt = mq->fifo[mq->rd];
    mq->rd = (mq->rd + 1) % mq->nb_max;
    mq->nb--;
    pthread_cond_signal(&mq->cond); // CAUSE
    pthread_mutex_unlock(&mq->lock);
    return 0;
}

static void *input_thread(void *arg) {
    InputFile *f = arg;
    for (int i = 0; i < f->packets; i++) {
        AVPacket pkt = { .stream = f->index, .pts = i * 40, .size = 16 };
        memset(pkt.data, f->index * 16 + i, sizeof pkt.data);
        queue_send(f->queue, &pkt);
        f->sent++;
    }
    pthread_mutex_lock(&ctx.lock);
    int last = --ctx.open_inputs == 0;
    pthread_mutex_unlock(&ctx.lock);
    if (last) {
        pthread_mutex_lock(&f->queue->lock);
        f->queue->err_recv = EPIPE;
        pthread_cond_broadcast(&f->queue->cond);
        pthread_mutex_unlock(&f->queue->lock);
    }
    return NULL;
}

int main(void) {
    InputFile inputs[DEMUXERS];
    pthread_t t[DEMUXERS];
    ThreadMessageQueue *mq = queue_alloc(1);
    AVPacket pkt;
    unsigned frames = 0, bytes = 0;
    int next_pts[DEMUXERS] = { 0 };
    ctx.open_inputs = DEMUXERS;
    for (int i = 0; i < DEMUXERS; i++)
        inputs[i] = (InputFile){ .index = i, .queue = mq, .packets = PACKETS - 2 * i };
    pthread_create(&t[0], NULL, input_thread, &inputs[0]);
    while (queue_recv(mq, &pkt) == 0) {
        if (pkt.pts != next_pts[pkt.stream] || pkt.data[5] != pkt.stream * 16 + pkt.pts / 40)
            abort();
        next_pts[pkt.stream] += 40;
        if (frames++ == 0)
            pthread_create(&t[1], NULL, input_thread, &inputs[1]);
        bytes += (unsigned)pkt.size;
    }
    for (int i = 0; i < DEMUXERS; i++)
        pthread_join(t[i], NULL);
    printf("%u frames, %u bytes\n", frames, bytes);
    return frames == DEMUXERS * PACKETS - 2 ? 0 : 1;
}
