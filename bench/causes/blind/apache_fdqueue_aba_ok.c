/* Twin of apache_fdqueue_aba: the head carries a tag that each change increments. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define POOLS 4
#define NONE 0xffffffffu

struct pool {
    _Atomic uint32_t next;
    int busy;
};

static struct pool pools[POOLS];
static _Atomic uint64_t recycled;
static atomic_int idlers;

static uint64_t new_head(uint64_t old, uint32_t idx)
{
    return ((old >> 32) + 1) << 32 | idx;
}

static void push_pool(uint32_t p)
{
    uint64_t old = atomic_load(&recycled);
    do
        atomic_store(&pools[p].next, (uint32_t)old);
    while (!atomic_compare_exchange_weak(&recycled, &old, new_head(old, p)));
    atomic_fetch_add(&idlers, 1);
}

static uint32_t pop_pool(void)
{
    uint64_t old = atomic_load(&recycled);
    uint32_t next;
    do {
        if ((uint32_t)old == NONE)
            return NONE;
        next = atomic_load(&pools[(uint32_t)old].next);
    } while (!atomic_compare_exchange_weak(&recycled, &old, new_head(old, next)));
    atomic_fetch_sub(&idlers, 1);
    return (uint32_t)old;
}

static void *listener(void *arg)
{
    (void)arg;
    uint32_t p = pop_pool();
    if (p != NONE)
        push_pool(p);
    return NULL;
}

static void *worker(void *arg)
{
    uint32_t *kept = arg;
    uint32_t a = pop_pool();
    *kept = pop_pool();
    if (a != NONE)
        push_pool(a);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    uint32_t kept = NONE;
    int twice = 0, seen = 0;
    atomic_store(&recycled, NONE);
    for (uint32_t i = 0; i < POOLS; i++)
        push_pool(i);
    pthread_create(&t[0], NULL, listener, NULL);
    pthread_create(&t[1], NULL, worker, &kept);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    for (uint32_t p = (uint32_t)recycled; p != NONE && seen < 9; p = pools[p].next, seen++)
        twice += p == kept;
    printf("%d idle, %d seen, %d in use\n", atomic_load(&idlers), seen, twice);
    return twice != 0 || seen != POOLS - 1;
}
