/* class: atomicity wrw; fails by: exit; cause: the auditor sums the balances between the debit and the credit of a transfer, which are two critical sections */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define N 4

struct account { pthread_mutex_t lock; int balance; };
static struct account acc[N];
static atomic_int transfers;

static void add(struct account *a, int amount)
{
    pthread_mutex_lock(&a->lock);
    a->balance += amount;                         // CAUSE
    pthread_mutex_unlock(&a->lock);
}

static int get(struct account *a)
{
    pthread_mutex_lock(&a->lock);
    int b = a->balance;                           // CAUSE
    pthread_mutex_unlock(&a->lock);
    return b;
}

static void transfer(int from, int to, int amount)
{
    add(&acc[from], -amount);                     // CAUSE
    add(&acc[to], amount);                        // CAUSE
    atomic_fetch_add(&transfers, 1);
}

static void *clerk(void *arg)
{
    int me = (int)(long)arg;
    for (int i = 1; i < N; i++)
        transfer(me, (me + i) % N, 10 * i);
    return NULL;
}

static void *auditor(void *arg)
{
    long total = 0;
    for (int i = 0; i < N; i++)
        total += get(&acc[i]);                    // CAUSE
    *(long *)arg = total;
    return NULL;
}

int main(void)
{
    pthread_t c[2], a;
    long total;
    for (int i = 0; i < N; i++) {
        pthread_mutex_init(&acc[i].lock, NULL);
        acc[i].balance = 100;
    }
    for (long i = 0; i < 2; i++)
        pthread_create(&c[i], NULL, clerk, (void *)i);
    pthread_create(&a, NULL, auditor, &total);
    pthread_join(a, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(c[i], NULL);
    if (total != 100 * N || atomic_load(&transfers) != 2 * (N - 1)) {
        printf("audit found %ld\n", total);
        return 1;
    }
    return 0;
}
