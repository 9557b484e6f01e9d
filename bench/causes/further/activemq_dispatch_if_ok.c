/* class: none (correct twin of activemq_dispatch_if: the wait is in a while loop) */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CONSUMERS 2
#define PER_CONSUMER 12
#define MESSAGES (CONSUMERS * PER_CONSUMER)

struct message {
    int id;
    int priority;
    struct message *next;
};

struct dispatch_queue {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct message *head, *tail;
    int size;
};

static struct dispatch_queue q = { .lock = PTHREAD_MUTEX_INITIALIZER, .ready = PTHREAD_COND_INITIALIZER };
static long acked[CONSUMERS];

static void enqueue(struct message *m)
{
    m->next = NULL;
    pthread_mutex_lock(&q.lock);
    if (q.tail)
        q.tail->next = m;
    else
        q.head = m;
    q.tail = m;
    q.size++;
    pthread_cond_signal(&q.ready);
    pthread_mutex_unlock(&q.lock);
}

static struct message *dequeue(void)
{
    struct message *m;

    pthread_mutex_lock(&q.lock);
    while (q.size == 0)
        pthread_cond_wait(&q.ready, &q.lock);
    assert(q.size > 0 && q.head != NULL);
    m = q.head;
    q.head = m->next;
    if (!q.head)
        q.tail = NULL;
    q.size--;
    pthread_mutex_unlock(&q.lock);
    return m;
}

static void *consumer(void *arg)
{
    int id = (int)(long)arg;

    for (int i = 0; i < PER_CONSUMER; i++) {
        struct message *m = dequeue();
        acked[id] += m->id * m->priority;
        free(m);
    }
    return NULL;
}

static void *producer(void *arg)
{
    (void)arg;
    for (int i = 1; i <= MESSAGES; i++) {
        struct message *m = malloc(sizeof *m);
        m->id = i;
        m->priority = i % 3 + 1;
        enqueue(m);
    }
    return NULL;
}

int main(void)
{
    pthread_t c[CONSUMERS], p;
    long want = 0, got = 0;

    for (long i = 0; i < CONSUMERS; i++)
        pthread_create(&c[i], NULL, consumer, (void *)i);
    pthread_create(&p, NULL, producer, NULL);
    pthread_join(p, NULL);
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(c[i], NULL);
        got += acked[i];
    }
    for (int i = 1; i <= MESSAGES; i++)
        want += i * (i % 3 + 1);
    if (got != want || q.size != 0) {
        printf("FAIL: acknowledged %ld, expected %ld\n", got, want);
        return 1;
    }
    printf("ok: %d messages\n", MESSAGES);
    return 0;
}
