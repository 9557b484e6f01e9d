/* class: check in one critical section, act in another (timeout); fails by: wrong result; cause: the timer thread finds the session expired, drops the lock, the client re-arms the timeout with new activity, and the timer thread closes the live session all the same */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SESSIONS = 4, CLIENTS = 2, REQUESTS = 6, TICKS = 14, TIMEOUT = 3 };

struct session {
    unsigned id;
    bool open;
    int expire;
    int closed_at;
    unsigned requests, refused;
    unsigned long bytes;
};

struct proxy {
    pthread_mutex_t lock;
    int now;
    struct session sess[SESSIONS];
    unsigned expired;
    pthread_mutex_t log_lock;
    unsigned log_lines;
};

static struct proxy px = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .log_lock = PTHREAD_MUTEX_INITIALIZER,
};

static void log_line(void) {
    pthread_mutex_lock(&px.log_lock);
    px.log_lines++;
    pthread_mutex_unlock(&px.log_lock);
}

static void session_arm(struct session *s) {
    s->expire = px.now + TIMEOUT; // CAUSE
}

static bool session_request(struct session *s, unsigned len) {
    bool ok;
    pthread_mutex_lock(&px.lock);
    ok = s->open;
    if (ok) {
        session_arm(s);
        s->requests++;
        for (unsigned i = 0; i < len; i++)
            s->bytes += i & 7;
    } else {
        s->refused++;
    }
    pthread_mutex_unlock(&px.lock);
    return ok;
}

static void session_close(struct session *s) {
    pthread_mutex_lock(&px.lock);
    s->open = false; // CAUSE
    s->closed_at = px.now;
    px.expired++;
    pthread_mutex_unlock(&px.lock);
    log_line();
}

static void wake_expired(void) {
    struct session *list[SESSIONS];
    unsigned n = 0;
    pthread_mutex_lock(&px.lock);
    px.now++;
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct session *s = &px.sess[i];
        if (s->open && s->expire <= px.now) // CAUSE
            list[n++] = s;
    }
    pthread_mutex_unlock(&px.lock);
    for (unsigned i = 0; i < n; i++)
        session_close(list[i]);
}

static void *timer_thread(void *arg) {
    (void)arg;
    for (int i = 0; i < TICKS; i++)
        wake_expired();
    return NULL;
}

static void *client_thread(void *arg) {
    unsigned first = (unsigned)(uintptr_t)arg;
    for (unsigned r = 0; r < REQUESTS; r++) {
        for (unsigned i = first; i < SESSIONS; i += CLIENTS) {
            if (session_request(&px.sess[i], 16 + r))
                log_line();
        }
    }
    return NULL;
}

int main(void) {
    pthread_t t[CLIENTS + 1];
    unsigned served = 0, wrong = 0;
    for (unsigned i = 0; i < SESSIONS; i++) {
        px.sess[i].id = i;
        px.sess[i].open = true;
        session_arm(&px.sess[i]);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_create(&t[i], NULL, client_thread, (void *)(uintptr_t)i);
    pthread_create(&t[CLIENTS], NULL, timer_thread, NULL);
    for (int i = 0; i <= CLIENTS; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct session *s = &px.sess[i];
        served += s->requests;
        if (!s->open && s->expire > s->closed_at) {
            printf("session %u closed at %d, due at %d\n", s->id, s->closed_at, s->expire);
            wrong++;
        }
    }
    printf("served %u expired %u log %u\n", served, px.expired, px.log_lines);
    return wrong ? 1 : 0;
}
