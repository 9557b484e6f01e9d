/* class: none (correct twin of haproxy_queue_timeout: a stream that was granted a slot takes it, expired or not) */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define STREAMS 3
#define REQUESTS 12
#define MAXCONN 1
#define TIMEOUT_NS 20000000L

struct pendconn {
    pthread_cond_t cond;
    int granted;
    struct pendconn *next;
};

static pthread_mutex_t srv_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pendconn *pend_head, **pend_tail = &pend_head;
static int free_slots = MAXCONN;
static int served[STREAMS], rejected[STREAMS];
static unsigned payload[STREAMS];

static void pendconn_unlink(struct pendconn *w)
{
    for (struct pendconn **pp = &pend_head; *pp; pp = &(*pp)->next) {
        if (*pp == w) {
            *pp = w->next;
            if (!*pp)
                pend_tail = pp;
            return;
        }
    }
}

static int slot_acquire(void)
{
    struct pendconn w = { PTHREAD_COND_INITIALIZER, 0, NULL };
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TIMEOUT_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&srv_lock);
    if (free_slots > 0) {
        free_slots--;
        pthread_mutex_unlock(&srv_lock);
        return 1;
    }
    *pend_tail = &w;
    pend_tail = &w.next;
    while (!w.granted && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&w.cond, &srv_lock, &until);
    if (!w.granted) {
        pendconn_unlink(&w);
        pthread_mutex_unlock(&srv_lock);
        return 0;
    }
    pthread_mutex_unlock(&srv_lock);
    return 1;
}

static void slot_release(void)
{
    struct pendconn *w;

    pthread_mutex_lock(&srv_lock);
    if ((w = pend_head) != NULL) {
        pend_head = w->next;
        if (!pend_head)
            pend_tail = &pend_head;
        w->granted = 1;
        pthread_cond_signal(&w->cond);
    } else {
        free_slots++;
    }
    pthread_mutex_unlock(&srv_lock);
}

static void *stream(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < REQUESTS; i++) {
        if (!slot_acquire()) {
            rejected[id]++;
            continue;
        }
        for (int k = 0; k < 20; k++)
            payload[id] = payload[id] * 31 + (unsigned)k;
        served[id]++;
        slot_release();
    }
    return NULL;
}

int main(void)
{
    pthread_t th[STREAMS];
    int total = 0;

    for (long i = 0; i < STREAMS; i++)
        pthread_create(&th[i], NULL, stream, (void *)i);
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(th[i], NULL);
        total += served[i] + rejected[i];
    }
    if (free_slots != MAXCONN || total != STREAMS * REQUESTS) {
        printf("FAIL: %d of %d slots free at the end\n", free_slots, MAXCONN);
        return 1;
    }
    printf("ok: %d requests\n", total);
    return 0;
}
