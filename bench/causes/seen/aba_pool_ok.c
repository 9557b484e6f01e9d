/* correct twin of aba_pool: the head has a tag that every change increments */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define BLOCKS 4

struct block { atomic_uint next; atomic_int owner; int data[4]; };
static struct block blocks[BLOCKS + 1];
static atomic_ulong head;
static atomic_int allocations;

static unsigned pop(void)
{
    unsigned long h, next;
    do {
        h = atomic_load(&head);
        if ((unsigned)h == 0)
            return 0;
        next = atomic_load(&blocks[(unsigned)h].next) | ((h >> 32) + 1) << 32;
    } while (!atomic_compare_exchange_strong(&head, &h, next));
    atomic_fetch_add(&allocations, 1);
    return (unsigned)h;
}

static void push(unsigned b)
{
    unsigned long h = atomic_load(&head), top;
    do {
        atomic_store(&blocks[b].next, (unsigned)h);
        top = b | ((h >> 32) + 1) << 32;
    } while (!atomic_compare_exchange_strong(&head, &h, top));
}

static void use(unsigned b, int who)
{
    if (b && atomic_exchange(&blocks[b].owner, who) != 0)
        abort();
}

static void release(unsigned b)
{
    if (b) {
        atomic_store(&blocks[b].owner, 0);
        push(b);
    }
}

static void *task(void *arg)
{
    int who = (int)(long)arg;
    for (int i = 0; i < 4; i++) {
        unsigned a = pop(), b;
        use(a, who);
        use(b = pop(), who);
        release(a);
        release(b);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[3];
    for (unsigned b = BLOCKS; b; b--)
        push(b);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, task, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    return atomic_load(&allocations) == 0;
}
