/* correct twin of dl_semaphore: the producer posts for every item, waiter or not */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define ITEMS 6

struct channel {
    atomic_int items, waiters;
    sem_t wake;
    int slots[ITEMS];
};

static struct channel ch;

static void put(struct channel *c, int i, int value)
{
    c->slots[i] = value;
    atomic_fetch_add(&c->items, 1);
    sem_post(&c->wake);
}

static int get(struct channel *c, int i)
{
    while (atomic_load(&c->items) <= i) {
        atomic_fetch_add(&c->waiters, 1);
        sem_wait(&c->wake);
        atomic_fetch_sub(&c->waiters, 1);
    }
    return c->slots[i];
}

static void *consumer(void *arg)
{
    long sum = 0;
    for (int i = 0; i < ITEMS; i++)
        sum = sum * 3 + get(&ch, i);
    return (void *)sum;
}

int main(void)
{
    pthread_t t;
    void *sum;
    long want = 0;
    sem_init(&ch.wake, 0, 0);
    pthread_create(&t, NULL, consumer, NULL);
    for (int i = 0; i < ITEMS; i++) {
        put(&ch, i, 5 + i);
        want = want * 3 + 5 + i;
    }
    pthread_join(t, &sum);
    return (long)sum != want;
}
