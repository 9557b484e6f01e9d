/* class: timeout racing with completion; fails by: abort; cause: the timeout thread and the event thread both read state IN_FLIGHT before either stores its own final state, so the transfer is completed twice and its callback runs on a transfer already given back */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TRANSFERS = 2 };
enum state { IDLE, IN_FLIGHT, COMPLETED, TIMED_OUT };

struct transfer {
    volatile int state;
    int submitted;
    unsigned char buffer[32];
    unsigned actual;
    void (*callback)(struct transfer *);
    pthread_mutex_t lock;
    sem_t reaped;
};

static struct transfer xfers[TRANSFERS];
static pthread_mutex_t ctx_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned ctx_completed, ctx_timeouts;

static void on_done(struct transfer *t) {
    assert(t->submitted == 1);     /* the caller owns it again after this */
    t->submitted = 0;
    sem_post(&t->reaped);
}

static void submit(struct transfer *t) {
    t->callback = on_done;
    t->submitted = 1;
    t->state = IN_FLIGHT;
}

static int claim(struct transfer *t, int final) {
    if (t->state != IN_FLIGHT) // CAUSE
        return 0;
    t->state = final; // CAUSE
    return 1;
}

static void finish(struct transfer *t, int final, unsigned *stat) {
    if (!claim(t, final))
        return;
    pthread_mutex_lock(&ctx_lock);
    (*stat)++;
    pthread_mutex_unlock(&ctx_lock);
    pthread_mutex_lock(&t->lock);
    t->callback(t);
    pthread_mutex_unlock(&t->lock);
}

static void *event_thread(void *arg) {
    (void)arg;
    for (int i = 0; i < TRANSFERS; i++) {
        struct transfer *t = &xfers[i];
        unsigned char data[32];
        for (unsigned k = 0; k < sizeof data; k++)
            data[k] = (unsigned char)(k * 3 + (unsigned)i);
        pthread_mutex_lock(&t->lock);
        if (t->submitted)
            for (t->actual = 0; t->actual < sizeof data; t->actual++)
                t->buffer[t->actual] = data[t->actual];
        pthread_mutex_unlock(&t->lock);
        finish(t, COMPLETED, &ctx_completed);
    }
    return NULL;
}

static void *timeout_thread(void *arg) {
    sem_t *stop = arg;
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_nsec += 20000000;
    if (ts.tv_nsec >= 1000000000)
        ts.tv_sec++, ts.tv_nsec -= 1000000000;
    while (sem_timedwait(stop, &ts) != 0)
        if (errno == ETIMEDOUT) {
            for (int i = 0; i < TRANSFERS; i++)
                finish(&xfers[i], TIMED_OUT, &ctx_timeouts);
            break;
        }
    return NULL;
}

int main(void) {
    pthread_t e, o;
    static sem_t stop;
    sem_init(&stop, 0, 0);
    for (int i = 0; i < TRANSFERS; i++) {
        pthread_mutex_init(&xfers[i].lock, NULL);
        sem_init(&xfers[i].reaped, 0, 0);
        submit(&xfers[i]);
    }
    pthread_create(&o, NULL, timeout_thread, &stop);
    pthread_create(&e, NULL, event_thread, NULL);
    for (int i = 0; i < TRANSFERS; i++)
        while (sem_wait(&xfers[i].reaped) != 0)
            ;
    sem_post(&stop);
    pthread_join(e, NULL);
    pthread_join(o, NULL);
    printf("completed %u, timed out %u\n", ctx_completed, ctx_timeouts);
    return ctx_completed + ctx_timeouts == TRANSFERS ? 0 : 1;
}
