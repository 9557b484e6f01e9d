/* A seeded bug: to look whether there is enough money and to take it are two critical sections, each correct
 * by itself. Two threads can both look before either takes. Exit code 1 when an account is overdrawn.
 *
 * GOOD: one critical section. */
#include "guest.h"

#define ACCOUNTS 4
#define PRICE 60

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balances[ACCOUNTS] = {100, 100, 100, 100};

UNUSED static NOINLINE int enough(long account) {
    pthread_mutex_lock(&lock);
    int result = balances[account] >= PRICE;
    pthread_mutex_unlock(&lock);
    return result;
}

UNUSED static NOINLINE void take(long account) {
    pthread_mutex_lock(&lock);
    balances[account] -= PRICE;
    pthread_mutex_unlock(&lock);
}

UNUSED static NOINLINE void take_if_enough(long account) {
    pthread_mutex_lock(&lock);
    if (balances[account] >= PRICE)
        balances[account] -= PRICE;
    pthread_mutex_unlock(&lock);
}

static NOINLINE void buy(long account) {
#ifdef GOOD
    take_if_enough(account);
#else
    if (enough(account))
        take(account);
#endif
}

static void *spend(void *argument) {
    for (long account = 0; account < ACCOUNTS; account++)
        buy(account);
    return argument;
}

int main(void) {
    int overdrawn = 0;
    run_threads(2, spend);
    for (int i = 0; i < ACCOUNTS; i++)
        overdrawn += balances[i] < 0;
    printf(PROGRAM ": accounts %d overdrawn %d\n", ACCOUNTS, overdrawn);
    return overdrawn != 0;
}
