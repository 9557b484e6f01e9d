/* class: timer (stale index into the heap); fails by: wrong result; cause: cancel reads the place of a timer in the heap
 * under one lock and removes what is at that place under a second one, so that after a timer has fired and the heap
 * has been put in order in between, it takes another timer out */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define TIMERS 8
#define LAST_TICK 40

struct timer {
    int deadline;
    int pos;                            /* place in the heap, or -1 */
    int fired, cancelled;
};

static struct {
    pthread_mutex_t mutex;
    int n;
    struct timer *at[TIMERS];
} heap = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static struct timer timer[TIMERS];
static int cancel_calls;

static void place(int i, struct timer *t)
{
    heap.at[i] = t;
    t->pos = i;                                   // CAUSE
}

static void sift(int i, struct timer *t)
{
    while (i > 0 && heap.at[(i - 1) / 2]->deadline > t->deadline) {
        place(i, heap.at[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (int c; (c = 2 * i + 1) < heap.n; i = c) {
        if (c + 1 < heap.n && heap.at[c + 1]->deadline < heap.at[c]->deadline)
            c++;
        if (heap.at[c]->deadline >= t->deadline)
            break;
        place(i, heap.at[c]);
    }
    place(i, t);
}

static struct timer *heap_remove(int i)
{
    struct timer *t = heap.at[i];                 // CAUSE
    struct timer *last = heap.at[--heap.n];
    if (last != t)
        sift(i, last);
    t->pos = -1;                                  // CAUSE
    return t;
}

static void timer_add(struct timer *t, int deadline)
{
    pthread_mutex_lock(&heap.mutex);
    t->deadline = deadline;
    sift(heap.n++, t);
    pthread_mutex_unlock(&heap.mutex);
}

/* returns 1 when the timer will not fire any more because of this call */
static int timer_cancel(struct timer *t)
{
    int removed = 0;
    pthread_mutex_lock(&heap.mutex);
    int pos = t->pos;                             // CAUSE
    cancel_calls++;
    pthread_mutex_unlock(&heap.mutex);
    if (pos < 0)
        return 0;
    pthread_mutex_lock(&heap.mutex);
    if (pos < heap.n) {
        heap_remove(pos);
        removed = 1;
    }
    pthread_mutex_unlock(&heap.mutex);
    return removed;
}

static void *event_loop(void *arg)
{
    (void)arg;
    for (int now = 0; now <= LAST_TICK; now++) {
        pthread_mutex_lock(&heap.mutex);
        while (heap.n > 0 && heap.at[0]->deadline <= now)
            heap_remove(0)->fired++;
        pthread_mutex_unlock(&heap.mutex);
        sched_yield();
    }
    return NULL;
}

static void *client(void *arg)
{
    (void)arg;
    for (int i = TIMERS - 1; i >= 0; i -= 2)
        timer[i].cancelled = timer_cancel(&timer[i]);
    return NULL;
}

int main(void)
{
    pthread_t l, c;
    int wrong = 0;
    for (int i = 0; i < TIMERS; i++)
        timer_add(&timer[i], 5 + (i * 11) % 29);
    pthread_create(&l, NULL, event_loop, NULL);
    pthread_create(&c, NULL, client, NULL);
    pthread_join(l, NULL);
    pthread_join(c, NULL);
    for (int i = 0; i < TIMERS; i++)
        if (timer[i].fired + timer[i].cancelled != 1) {
            printf("timer %d: fired %d, cancelled %d\n", i, timer[i].fired, timer[i].cancelled);
            wrong++;
        }
    printf("%d cancel calls, %d wrong\n", cancel_calls, wrong);
    return wrong != 0;
}
