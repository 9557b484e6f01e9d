/* class: wrong lock (only one of two stripes); fails by: wrong result; cause: a transfer takes the lock of the shelf
 * from which it takes, but changes the shelf to which it brings as well, so that a delivery to that shelf, which
 * holds another lock, is lost */
#include <pthread.h>
#include <stdio.h>

#define SHELVES 6
#define STRIPES 3
#define ROUNDS 4

static pthread_mutex_t stripe[STRIPES] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER
};
static int stock[SHELVES] = { 20, 20, 20, 20, 20, 20 };
static int delivered[SHELVES];

static int stripe_of(int shelf)
{
    return shelf % STRIPES;
}

static void deliver(int shelf, int n)
{
    pthread_mutex_lock(&stripe[stripe_of(shelf)]);
    int have = stock[shelf];                      // CAUSE
    stock[shelf] = have + n;                      // CAUSE
    delivered[shelf] += n;
    pthread_mutex_unlock(&stripe[stripe_of(shelf)]);
}

static int transfer(int from, int to, int n)
{
    int moved = 0;
    pthread_mutex_lock(&stripe[stripe_of(from)]);
    if (stock[from] >= n) {
        stock[from] -= n;
        stock[to] += n;                           // CAUSE
        moved = n;
    }
    pthread_mutex_unlock(&stripe[stripe_of(from)]);
    return moved;
}

static void *dock(void *arg)
{
    (void)arg;
    for (int r = 0; r < ROUNDS; r++)
        for (int s = 0; s < SHELVES; s++)
            deliver(s, 1 + (s + r) % 3);
    return NULL;
}

static void *forklift(void *arg)
{
    int *moved = arg;
    for (int r = 0; r < ROUNDS; r++)
        for (int s = 0; s < SHELVES; s += 2)
            *moved += transfer(s, s + 1, 2);
    return NULL;
}

int main(void)
{
    pthread_t d, f;
    int moved = 0, sum = 0, expected = 20 * SHELVES;
    pthread_create(&d, NULL, dock, NULL);
    pthread_create(&f, NULL, forklift, &moved);
    pthread_join(d, NULL);
    pthread_join(f, NULL);
    for (int s = 0; s < SHELVES; s++) {
        sum += stock[s];
        expected += delivered[s];
    }
    printf("%d pieces moved, %d in stock, %d expected\n", moved, sum, expected);
    return sum != expected;
}
