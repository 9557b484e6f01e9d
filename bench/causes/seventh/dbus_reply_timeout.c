/* class: timeout versus completion; fails by: wrong result; cause: the wait for a reply ends with ETIMEDOUT although the dispatcher has completed the pending call while the caller was getting the mutex back, the caller does not look at completed again and throws the reply away */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { CALLERS = 2, CALLS = 4, MAX_PENDING = 4, QSIZE = 16, TIMEOUT_MS = 20 };

struct pending_call {
    bool used, completed;
    unsigned serial;
    long reply;
    pthread_cond_t cond;
};

struct call {
    unsigned serial;
    long argument;
};

static struct connection {
    pthread_mutex_t mutex;
    pthread_cond_t outgoing_ready;
    struct call outgoing[QSIZE];
    unsigned head, tail;
    struct pending_call pending[MAX_PENDING];
    unsigned next_serial;
    bool disconnected;
    unsigned delivered, orphaned;
    unsigned received, timeouts, wrong;
} conn = { .mutex = PTHREAD_MUTEX_INITIALIZER, .outgoing_ready = PTHREAD_COND_INITIALIZER, .next_serial = 1 };

static long service(long argument) {
    long r = 1;
    for (int i = 0; i < 30; i++)
        r = (r * 13 + argument) % 9973;
    return r;
}

static struct pending_call *find_pending(unsigned serial) {
    for (int i = 0; i < MAX_PENDING; i++)
        if (conn.pending[i].used && conn.pending[i].serial == serial)
            return &conn.pending[i];
    return NULL;
}

static struct pending_call *send_with_reply(long argument) {
    struct pending_call *p = &conn.pending[0];
    while (p->used)
        p++;
    p->used = true, p->completed = false;
    p->serial = conn.next_serial++;
    conn.outgoing[conn.tail++ % QSIZE] = (struct call){ p->serial, argument };
    pthread_cond_signal(&conn.outgoing_ready);
    return p;
}

static void deadline_after(struct timespec *ts, int ms) {
    clock_gettime(CLOCK_REALTIME, ts);
    ts->tv_nsec += ms * 1000000L;
    if (ts->tv_nsec >= 1000000000L)
        ts->tv_sec++, ts->tv_nsec -= 1000000000L;
}

static bool call_blocking(long argument, long *reply) {
    struct timespec ts;
    bool timed_out = false, ok = false;
    deadline_after(&ts, TIMEOUT_MS);
    pthread_mutex_lock(&conn.mutex);
    struct pending_call *p = send_with_reply(argument);
    while (!p->completed && !timed_out)
        timed_out = pthread_cond_timedwait(&p->cond, &conn.mutex, &ts) == ETIMEDOUT; // CAUSE
    if (timed_out) { // CAUSE
        conn.timeouts++;
    } else {
        *reply = p->reply;
        conn.received++;
        ok = true;
    }
    p->used = false;
    pthread_mutex_unlock(&conn.mutex);
    return ok;
}

static void dispatch_reply(unsigned serial, long value) {
    pthread_mutex_lock(&conn.mutex);
    struct pending_call *p = find_pending(serial);
    if (p) {
        p->reply = value;
        p->completed = true; // CAUSE
        conn.delivered++;
        pthread_cond_signal(&p->cond);
    } else {
        conn.orphaned++;
    }
    pthread_mutex_unlock(&conn.mutex);
}

static void *dispatcher(void *arg) {
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&conn.mutex);
        while (conn.head == conn.tail && !conn.disconnected)
            pthread_cond_wait(&conn.outgoing_ready, &conn.mutex);
        if (conn.head == conn.tail) {
            pthread_mutex_unlock(&conn.mutex);
            return NULL;
        }
        struct call c = conn.outgoing[conn.head++ % QSIZE];
        pthread_mutex_unlock(&conn.mutex);
        dispatch_reply(c.serial, service(c.argument));
    }
}

static void *caller(void *arg) {
    long self = (long)(intptr_t)arg;
    for (long i = 0; i < CALLS; i++) {
        long reply = 0;
        if (call_blocking(self * 10 + i, &reply) && reply != service(self * 10 + i)) {
            pthread_mutex_lock(&conn.mutex);
            conn.wrong++;
            pthread_mutex_unlock(&conn.mutex);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t d, t[CALLERS];
    for (int i = 0; i < MAX_PENDING; i++)
        pthread_cond_init(&conn.pending[i].cond, NULL);
    pthread_create(&d, NULL, dispatcher, NULL);
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&t[i], NULL, caller, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < CALLERS; i++)
        pthread_join(t[i], NULL);
    pthread_mutex_lock(&conn.mutex);
    conn.disconnected = true;
    pthread_cond_signal(&conn.outgoing_ready);
    pthread_mutex_unlock(&conn.mutex);
    pthread_join(d, NULL);
    printf("delivered %u received %u timeouts %u orphaned %u\n", conn.delivered, conn.received, conn.timeouts, conn.orphaned);
    return conn.delivered == conn.received && conn.wrong == 0 ? 0 : 1;
}
