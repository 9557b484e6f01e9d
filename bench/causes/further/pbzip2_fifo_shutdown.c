/* class: order violation (shutdown); fails by: SIGSEGV;
 * cause: main joins only the writer, which ends when all blocks are written, and then deletes the fifo; a consumer that
 * has delivered its last block looks into the fifo once more after that, and finds its mutex pointer NULL. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CONSUMERS 2
#define BLOCKS 12
#define BLOCKSIZE 24

struct block {
    int no;
    unsigned char data[BLOCKSIZE];
};

struct fifo {
    pthread_mutex_t *mut;
    int head, tail;
    struct block *items[BLOCKS];
};

static pthread_mutex_t fifo_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct fifo queue;

static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t out_ready = PTHREAD_COND_INITIALIZER;
static unsigned out_crc[BLOCKS];
static int out_done[BLOCKS];
static unsigned file_crc;

static unsigned compress_block(const unsigned char *data)
{
    unsigned crc = 0;
    for (int k = 0; k < BLOCKSIZE; k++)
        crc = (crc << 1 | crc >> 31) ^ data[k];
    return crc;
}

static unsigned queue_init(struct fifo *q)
{
    unsigned crc = 0;

    q->mut = &fifo_mutex;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = malloc(sizeof *b);
        b->no = i;
        for (int k = 0; k < BLOCKSIZE; k++)
            b->data[k] = (unsigned char)(i * 7 + k);
        crc = crc * 31 + compress_block(b->data);
        q->items[q->tail++] = b;
    }
    return crc;
}

static void queue_delete(struct fifo *q)
{
    pthread_mutex_destroy(q->mut);
    q->mut = NULL; // CAUSE
}

static void *consumer(void *arg)
{
    struct fifo *q = arg;

    for (;;) {
        struct block *b = NULL;
        pthread_mutex_lock(q->mut); // CAUSE
        if (q->head < q->tail)
            b = q->items[q->head++];
        pthread_mutex_unlock(q->mut); // CAUSE
        if (!b)
            return NULL;
        unsigned crc = compress_block(b->data);
        pthread_mutex_lock(&out_lock);
        out_crc[b->no] = crc;
        out_done[b->no] = 1;
        pthread_mutex_unlock(&out_lock);
        pthread_cond_signal(&out_ready);
        free(b);
    }
}

static void *file_writer(void *arg)
{
    (void)arg;
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&out_lock);
        while (!out_done[i])
            pthread_cond_wait(&out_ready, &out_lock);
        file_crc = file_crc * 31 + out_crc[i];
        pthread_mutex_unlock(&out_lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t th[CONSUMERS], writer;
    unsigned want = queue_init(&queue);

    for (int i = 0; i < CONSUMERS; i++)
        pthread_create(&th[i], NULL, consumer, &queue);
    pthread_create(&writer, NULL, file_writer, NULL);
    pthread_join(writer, NULL);
    queue_delete(&queue);
    for (int i = 0; i < CONSUMERS; i++)
        pthread_join(th[i], NULL);
    if (file_crc != want) {
        printf("FAIL: file checksum %08x, expected %08x\n", file_crc, want);
        return 1;
    }
    printf("ok: checksum %08x\n", file_crc);
    return 0;
}
