/* correct twin of rwr_withdraw: the check and the debit are in one critical section */
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

static int withdraw(struct account *a, int amount)
{
    pthread_mutex_lock(&a->lock);
    if (a->balance < amount) {
        pthread_mutex_unlock(&a->lock);
        atomic_fetch_add(&refused, 1);
        return 0;
    }
    int left = a->balance - amount;
    a->balance = left;
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
