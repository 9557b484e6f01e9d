/* correct twin of gstreamer_queue_if: the thread waits in a loop */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define PADS 2
#define PER 3
#define SIZE 4

struct buffer { int pts, size; };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t item_add, item_del;
    struct buffer b[SIZE];
    int head, level;
} queue = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, { { 0, 0 } }, 0, 0 };

static int bytes[PADS];

static struct buffer pop(void)
{
    struct buffer b;
    pthread_mutex_lock(&queue.lock);
    while (queue.level == 0)
        pthread_cond_wait(&queue.item_add, &queue.lock);
    assert(queue.level > 0);
    b = queue.b[queue.head % SIZE];
    queue.head++;
    queue.level--;
    pthread_cond_signal(&queue.item_del);
    pthread_mutex_unlock(&queue.lock);
    return b;
}

static void push(int pts, int size)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.level == SIZE)
        pthread_cond_wait(&queue.item_del, &queue.lock);
    struct buffer *b = &queue.b[(queue.head + queue.level) % SIZE];
    b->pts = pts;
    b->size = size;
    queue.level++;
    pthread_cond_signal(&queue.item_add);
    pthread_mutex_unlock(&queue.lock);
}

static int render(struct buffer b)
{
    int n = 0;
    for (int i = 0; i < b.size; i++)
        n += 1;
    return n;
}

static void *src_pad(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < PER; i++)
        bytes[id] += render(pop());
    return NULL;
}

int main(void)
{
    pthread_t t[PADS];
    int want = 0, got = 0;
    for (long i = 0; i < PADS; i++)
        pthread_create(&t[i], NULL, src_pad, (void *)i);
    for (int i = 0; i < PADS * PER; i++) {
        push(i, 10 + i);
        want += 10 + i;
    }
    for (int i = 0; i < PADS; i++) {
        pthread_join(t[i], NULL);
        got += bytes[i];
    }
    printf("%d bytes\n", got);
    return got != want;
}
