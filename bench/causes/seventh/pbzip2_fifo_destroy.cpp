/* class: order violation (use after free); fails by: abort; cause: main deletes the fifo as soon as the writer thread has written the last block, while a consumer still has to lock the fifo once more to learn that all is done */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sched.h>

enum { BLOCKS = 6, CONSUMERS = 1, QSIZE = 3, BLOCKLEN = 48 };
static const uint32_t kAlive = 0xf1f0u;

struct Block {
    int num;
    unsigned char data[BLOCKLEN];
    uint32_t crc;
};

struct Fifo {
    Block *buf[QSIZE];
    int head = 0, count = 0;
    bool producerDone = false;
    volatile uint32_t alive = kAlive;
    pthread_mutex_t mut;
    pthread_cond_t notFull, notEmpty;
};

static pthread_mutex_t outMutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t outReady = PTHREAD_COND_INITIALIZER;
static Block *outBuf[BLOCKS];
static uint32_t fileCrc;

static Fifo *queueInit() {
    Fifo *q = new Fifo;
    pthread_mutex_init(&q->mut, nullptr);
    pthread_cond_init(&q->notFull, nullptr);
    pthread_cond_init(&q->notEmpty, nullptr);
    return q;
}

static void queueDelete(Fifo *q) {
    pthread_mutex_destroy(&q->mut);
    q->alive = 0; // CAUSE
    delete q;
}

static void queueLock(Fifo *q) {
    if (q->alive != kAlive) { // CAUSE
        std::fputs("consumer: the queue is gone\n", stderr);
        std::abort();
    }
    pthread_mutex_lock(&q->mut); // CAUSE
}

static void *producer(void *arg) {
    Fifo *q = static_cast<Fifo *>(arg);
    for (int i = 0; i < BLOCKS; i++) {
        Block *b = new Block;
        b->num = i;
        for (int k = 0; k < BLOCKLEN; k++)
            b->data[k] = static_cast<unsigned char>(i * 7 + k);
        queueLock(q);
        while (q->count == QSIZE)
            pthread_cond_wait(&q->notFull, &q->mut);
        q->buf[(q->head + q->count++) % QSIZE] = b;
        pthread_cond_signal(&q->notEmpty);
        if (i == BLOCKS - 1) {
            q->producerDone = true;
            pthread_cond_broadcast(&q->notEmpty);
        }
        pthread_mutex_unlock(&q->mut);
    }
    return nullptr;
}

static void compressBlock(Block *b) {
    uint32_t h = 1;
    for (int k = 0; k < BLOCKLEN; k++)
        h = h * 16777619u ^ b->data[k];
    b->crc = h;
}

static void *consumer(void *arg) {
    Fifo *q = static_cast<Fifo *>(arg);
    for (;;) {
        queueLock(q);
        while (q->count == 0 && !q->producerDone)
            pthread_cond_wait(&q->notEmpty, &q->mut);
        if (q->count == 0) {
            pthread_mutex_unlock(&q->mut);
            return nullptr;
        }
        Block *b = q->buf[q->head];
        q->head = (q->head + 1) % QSIZE;
        q->count--;
        pthread_cond_signal(&q->notFull);
        pthread_mutex_unlock(&q->mut);
        compressBlock(b);
        pthread_mutex_lock(&outMutex);
        outBuf[b->num] = b;
        pthread_cond_signal(&outReady);
        pthread_mutex_unlock(&outMutex);
    }
}

static void *fileWriter(void *) {
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&outMutex);
        while (!outBuf[i])
            pthread_cond_wait(&outReady, &outMutex);
        Block *b = outBuf[i];
        pthread_mutex_unlock(&outMutex);
        fileCrc = (fileCrc << 1 | fileCrc >> 31) ^ b->crc;
        delete b;
        sched_yield();
    }
    return nullptr;
}

int main() {
    pthread_t prod, cons[CONSUMERS], writer;
    Fifo *fifo = queueInit();
    for (auto &c : cons)
        pthread_create(&c, nullptr, consumer, fifo);
    pthread_create(&writer, nullptr, fileWriter, nullptr);
    pthread_create(&prod, nullptr, producer, fifo);
    pthread_join(prod, nullptr);
    pthread_join(writer, nullptr); // CAUSE
    queueDelete(fifo);
    for (auto &c : cons)
        pthread_join(c, nullptr);
    std::printf("crc %08x\n", static_cast<unsigned>(fileCrc));
    return 0;
}
