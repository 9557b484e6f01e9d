/* correct twin of chase_lev_last: the owner and the thieves compete for the last task by compare-and-swap */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define TASKS 9
#define BATCH 3
#define THIEVES 2
#define EMPTY (-1)

static struct {
    atomic_long top, bottom;
    atomic_int task[TASKS * 2];
} deque;

static atomic_int runs[TASKS];
static atomic_int stop;
static int stolen[THIEVES];

static void push(int task)
{
    long b = atomic_load(&deque.bottom);
    atomic_store(&deque.task[b], task);
    atomic_store(&deque.bottom, b + 1);
}

static int take(void)
{
    long b = atomic_load(&deque.bottom) - 1;
    atomic_store(&deque.bottom, b);
    long t = atomic_load(&deque.top);
    if (t > b) {
        atomic_store(&deque.bottom, t);
        return EMPTY;
    }
    int task = atomic_load(&deque.task[b]);
    if (t < b)
        return task;
    long last = t;
    if (!atomic_compare_exchange_strong(&deque.top, &last, t + 1))
        task = EMPTY;
    atomic_store(&deque.bottom, t + 1);
    return task;
}

static int steal(void)
{
    long t = atomic_load(&deque.top);
    long b = atomic_load(&deque.bottom);
    if (t >= b)
        return EMPTY;
    int task = atomic_load(&deque.task[t]);
    if (!atomic_compare_exchange_strong(&deque.top, &t, t + 1))
        return EMPTY;
    return task;
}

static void run_task(int task)
{
    unsigned h = task;
    for (int i = 0; i < 50; i++)
        h = h * 31 + i;
    atomic_fetch_add(&runs[task], 1 + (h == 0));
}

static void *thief(void *arg)
{
    int id = (int)(long)arg;
    while (!atomic_load(&stop)) {
        int task = steal();
        if (task != EMPTY) {
            run_task(task);
            stolen[id]++;
        }
        sched_yield();
    }
    return NULL;
}

static void *owner(void *arg)
{
    (void)arg;
    for (int i = 0; i < TASKS; i += BATCH) {
        int task;
        for (int k = 0; k < BATCH; k++)
            push(i + k);
        while ((task = take()) != EMPTY)
            run_task(task);
    }
    atomic_store(&stop, 1);
    return NULL;
}

int main(void)
{
    pthread_t o, t[THIEVES];
    for (long i = 0; i < THIEVES; i++)
        pthread_create(&t[i], NULL, thief, (void *)i);
    pthread_create(&o, NULL, owner, NULL);
    pthread_join(o, NULL);
    for (int i = 0; i < THIEVES; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < TASKS; i++)
        assert(atomic_load(&runs[i]) == 1);
    printf("%d tasks, %d stolen\n", TASKS, stolen[0] + stolen[1]);
    return 0;
}
