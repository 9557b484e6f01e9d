/* correct twin of lu_account: the account's own lock is held from the read to the store */
#include <pthread.h>
#include <stdio.h>

struct account { long id; long balance; pthread_mutex_t lock; };
struct entry { long id, amount, fee; };

static struct account acc[2] = {
    { 1, 1000, PTHREAD_MUTEX_INITIALIZER }, { 2, 1000, PTHREAD_MUTEX_INITIALIZER } };
static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry ledger[64];
static int nledger;

static long record_fee(struct account *a, long amount)
{
    long fee = amount > 50 ? amount / 50 : 1;
    pthread_mutex_lock(&ledger_lock);
    ledger[nledger++] = (struct entry){ a->id, amount, fee };
    pthread_mutex_unlock(&ledger_lock);
    return fee;
}

static void deposit(struct account *a, long amount)
{
    pthread_mutex_lock(&a->lock);
    long b = a->balance;
    long fee = record_fee(a, amount);
    a->balance = b + amount - fee;
    pthread_mutex_unlock(&a->lock);
}

static void *teller(void *arg)
{
    long base = (long)arg;
    for (int i = 0; i < 6; i++)
        deposit(&acc[i % 2], base + 10 * i);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    long want = 2000, have;
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, teller, (void *)(100 * (i + 1)));
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < nledger; i++)
        want += ledger[i].amount - ledger[i].fee;
    have = acc[0].balance + acc[1].balance;
    if (have != want) {
        printf("balance %ld, ledger says %ld\n", have, want);
        return 1;
    }
    return 0;
}
