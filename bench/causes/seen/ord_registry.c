/* class: order violation (used before created); fails by: exit; cause: the worker looks itself up in the registry, in which the parent registers it only after its creation */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define N 4

struct entry { atomic_int used; pthread_t tid; int quota; };

static struct entry registry[N];
static pthread_barrier_t gate;
static atomic_int unknown, consumed;
static unsigned char composite[400];

static void enter(int i, pthread_t tid, int quota)
{
    registry[i].tid = tid;
    registry[i].quota = quota;
    atomic_store(&registry[i].used, 1);           // CAUSE
}

static int find_quota(pthread_t self)
{
    for (int i = 0; i < N; i++)
        if (atomic_load(&registry[i].used) && pthread_equal(registry[i].tid, self)) // CAUSE
            return registry[i].quota;
    return -1;
}

static void consume(void)
{
    int quota = find_quota(pthread_self());
    if (quota < 0)
        atomic_fetch_add(&unknown, 1);
    else
        atomic_fetch_add(&consumed, quota);
}

static void *worker(void *arg)
{
    for (int p = 2; p < 400; p++)
        for (int m = 2 * p; !composite[p] && m < 400; m += p)
            composite[m] = 1;
    consume();
    pthread_barrier_wait(&gate);
    return NULL;
}

int main(void)
{
    pthread_t t;
    pthread_barrier_init(&gate, NULL, 2);
    enter(0, pthread_self(), 10);
    pthread_create(&t, NULL, worker, NULL);
    enter(1, t, 20);                              // CAUSE
    pthread_barrier_wait(&gate);
    consume();
    pthread_join(t, NULL);
    if (atomic_load(&unknown)) {
        printf("%d threads not registered\n", atomic_load(&unknown));
        return 1;
    }
    return atomic_load(&consumed) != 30 || composite[397];
}
