/* A seeded bug: transfers between two accounts lock the giver first, then the taker. Two threads that
 * transfer in opposite directions can each hold one lock and wait for the other for ever.
 *
 * GOOD: the account with the lower number is locked first. */
#include "guest.h"

#define ROUNDS 10

static struct account {
    pthread_mutex_t lock;
    long number, balance;
} accounts[2] = {{PTHREAD_MUTEX_INITIALIZER, 0, 1000}, {PTHREAD_MUTEX_INITIALIZER, 1, 1000}};

static NOINLINE void transfer(struct account *giver, struct account *taker, long amount) {
#ifdef GOOD
    struct account *first = giver->number < taker->number ? giver : taker;
    struct account *second = first == giver ? taker : giver;
#else
    struct account *first = giver, *second = taker;
#endif
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    giver->balance -= amount;
    taker->balance += amount;
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static void *trade(void *argument) {
    long self = (long)argument;
    for (int round = 0; round < ROUNDS; round++)
        transfer(&accounts[self], &accounts[!self], 10 + self);
    return NULL;
}

int main(void) {
    run_threads(2, trade);
    printf(PROGRAM ": balances %ld and %ld\n", accounts[0].balance, accounts[1].balance);
    return accounts[0].balance != 1000 + ROUNDS || accounts[1].balance != 1000 - ROUNDS;
}
