/* class: deadlock (self-lock through a callback); fails by: deadlock; cause: when the result is there already, then()
 * calls the callback at once with the future's lock held, and the callback asks the future for its value, which
 * takes the lock again */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define FUTURES 3

struct future {
    pthread_mutex_t lock;
    int done, value;
    void (*callback)(struct future *, void *);
    void *arg;
};

static struct future futures[FUTURES];
static sem_t submitted;

static pthread_mutex_t results_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t results_changed = PTHREAD_COND_INITIALIZER;
static int results, sum;

static int future_value(struct future *f)
{
    pthread_mutex_lock(&f->lock);                 // CAUSE
    int v = f->value;
    pthread_mutex_unlock(&f->lock);
    return v;
}

static void future_then(struct future *f, void (*callback)(struct future *, void *), void *arg)
{
    pthread_mutex_lock(&f->lock);                 // CAUSE
    if (f->done) {                                // CAUSE
        callback(f, arg);
    } else {
        f->callback = callback;
        f->arg = arg;
    }
    pthread_mutex_unlock(&f->lock);
}

static void future_complete(struct future *f, int value)
{
    pthread_mutex_lock(&f->lock);
    f->value = value;
    f->done = 1;
    void (*callback)(struct future *, void *) = f->callback;
    f->callback = NULL;
    pthread_mutex_unlock(&f->lock);
    if (callback)
        callback(f, f->arg);
}

static void on_result(struct future *f, void *arg)
{
    int weight = *(int *)arg;
    int v = future_value(f);
    pthread_mutex_lock(&results_lock);
    sum += weight * v;
    results++;
    pthread_cond_signal(&results_changed);
    pthread_mutex_unlock(&results_lock);
}

static int compute(int n)
{
    int v = 0;
    for (int i = 0; i < 300 * (n + 1); i++)
        v = (v * 7 + i) % 1009;
    return v;
}

static void *worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < FUTURES; i++) {
        sem_wait(&submitted);
        future_complete(&futures[i], compute(i));
    }
    return NULL;
}

static void *requester(void *arg)
{
    static int weights[FUTURES] = { 1, 2, 3 };
    (void)arg;
    for (int i = 0; i < FUTURES; i++) {
        sem_post(&submitted);
        future_then(&futures[i], on_result, &weights[i]);
    }
    return NULL;
}

int main(void)
{
    pthread_t w, r;
    sem_init(&submitted, 0, 0);
    for (int i = 0; i < FUTURES; i++)
        pthread_mutex_init(&futures[i].lock, NULL);
    pthread_create(&r, NULL, requester, NULL);
    pthread_create(&w, NULL, worker, NULL);
    pthread_mutex_lock(&results_lock);
    while (results < FUTURES)
        pthread_cond_wait(&results_changed, &results_lock);
    pthread_mutex_unlock(&results_lock);
    pthread_join(r, NULL);
    pthread_join(w, NULL);
    printf("sum %d\n", sum);
    return sum != compute(0) + 2 * compute(1) + 3 * compute(2);
}
