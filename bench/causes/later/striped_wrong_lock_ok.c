/* correct twin of striped_wrong_lock: a transfer holds the locks of both shelves, the lower one first */
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
    int have = stock[shelf];
    stock[shelf] = have + n;
    delivered[shelf] += n;
    pthread_mutex_unlock(&stripe[stripe_of(shelf)]);
}

static int transfer(int from, int to, int n)
{
    int moved = 0;
    int a = stripe_of(from), b = stripe_of(to);
    pthread_mutex_lock(&stripe[a < b ? a : b]);
    if (a != b)
        pthread_mutex_lock(&stripe[a < b ? b : a]);
    if (stock[from] >= n) {
        stock[from] -= n;
        stock[to] += n;
        moved = n;
    }
    if (a != b)
        pthread_mutex_unlock(&stripe[a < b ? b : a]);
    pthread_mutex_unlock(&stripe[a < b ? a : b]);
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
