/* class: atomicity rwr; fails by: abort; cause: the balance is checked in one critical section and debited in another, so that two withdrawals both pass the check and overdraw the account */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

struct account {
    pthread_mutex_t lock;
    int balance;
};

static struct account acct = { PTHREAD_MUTEX_INITIALIZER, 100 };
static pthread_barrier_t open_hours;
static atomic_int refused, paid;

static int balance(struct account *a)
{
    pthread_mutex_lock(&a->lock);
    int b = a->balance;                           // CAUSE
    pthread_mutex_unlock(&a->lock);
    return b;
}

static int withdraw(struct account *a, int amount)
{
    if (balance(a) < amount) {                    // CAUSE
        atomic_fetch_add(&refused, 1);
        return 0;
    }
    pthread_mutex_lock(&a->lock);
    int left = a->balance - amount;               // CAUSE
    a->balance = left;                            // CAUSE
    pthread_mutex_unlock(&a->lock);
    assert(left >= 0);
    atomic_fetch_add(&paid, amount);
    return 1;
}

static void *customer(void *arg)
{
    int amount = *(int *)arg;
    pthread_barrier_wait(&open_hours);
    while (withdraw(&acct, amount))
        ;
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    int amounts[2] = { 25, 40 };
    pthread_barrier_init(&open_hours, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, customer, &amounts[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert(atomic_load(&refused) == 2);
    assert(acct.balance + atomic_load(&paid) == 100);
    return 0;
}
