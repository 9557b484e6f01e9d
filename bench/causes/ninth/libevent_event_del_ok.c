/* correct twin of libevent_event_del: the bufferevent removes its event without a wait for the callback, which looks at the enabled flag under the lock */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 2, ROUNDS = 3 };

struct event_base;
struct event {
    struct event *next;
    struct event_base *base;
    void (*callback)(void *arg);
    void *arg;
    int active, added;
};

struct event_base {
    pthread_mutex_t lock;
    pthread_cond_t activated;
    struct event *active, *running;
    int loopbreak;
    unsigned dispatched;
};

static void event_add(struct event *ev) {
    pthread_mutex_lock(&ev->base->lock);
    ev->added = 1;
    pthread_mutex_unlock(&ev->base->lock);
}

static void event_active(struct event *ev) {
    pthread_mutex_lock(&ev->base->lock);
    if (ev->added && !ev->active) {
        ev->active = 1;
        ev->next = ev->base->active;
        ev->base->active = ev;
        pthread_cond_signal(&ev->base->activated);
    }
    pthread_mutex_unlock(&ev->base->lock);
}

/* does not wait for a callback that runs */
static void event_del_noblock(struct event *ev) {
    struct event_base *base = ev->base;
    pthread_mutex_lock(&base->lock);
    ev->added = 0;
    if (ev->active) {
        struct event **p = &base->active;
        while (*p != ev)
            p = &(*p)->next;
        *p = ev->next;
        ev->active = 0;
    }
    pthread_mutex_unlock(&base->lock);
}

static void *event_base_dispatch(void *arg) {
    struct event_base *base = arg;
    pthread_mutex_lock(&base->lock);
    while (base->active || !base->loopbreak) {
        struct event *ev = base->active;
        if (!ev) {
            pthread_cond_wait(&base->activated, &base->lock);
            continue;
        }
        base->active = ev->next;
        ev->active = 0;
        base->running = ev;
        base->dispatched++;
        pthread_mutex_unlock(&base->lock);
        ev->callback(ev->arg);
        pthread_mutex_lock(&base->lock);
        base->running = NULL;
    }
    pthread_mutex_unlock(&base->lock);
    return NULL;
}

struct bufferevent {
    pthread_mutex_t lock;
    struct event ev_read;
    int enabled;
    char input[64];
    unsigned reads, skipped;
};

static void bufferevent_readcb(void *arg) {
    struct bufferevent *bev = arg;
    pthread_mutex_lock(&bev->lock);
    if (bev->enabled) {
        size_t n = strlen(bev->input);
        snprintf(bev->input + n, sizeof bev->input - n, "data%u ", bev->reads);
        bev->reads++;
    } else {
        bev->skipped++;
    }
    pthread_mutex_unlock(&bev->lock);
}

static void bufferevent_enable(struct bufferevent *bev) {
    pthread_mutex_lock(&bev->lock);
    bev->enabled = 1;
    event_add(&bev->ev_read);
    pthread_mutex_unlock(&bev->lock);
}

static void bufferevent_disable(struct bufferevent *bev) {
    pthread_mutex_lock(&bev->lock);
    bev->enabled = 0;
    event_del_noblock(&bev->ev_read);
    pthread_mutex_unlock(&bev->lock);
}

static struct event_base base = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .activated = PTHREAD_COND_INITIALIZER,
};
static struct bufferevent bev[EVENTS];

static void *network(void *arg) {
    (void)arg;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < EVENTS; i++)
            event_active(&bev[i].ev_read);
    return NULL;
}

int main(void) {
    pthread_t loop, net;
    unsigned reads = 0, skipped = 0;
    for (int i = 0; i < EVENTS; i++) {
        pthread_mutex_init(&bev[i].lock, NULL);
        bev[i].ev_read.base = &base;
        bev[i].ev_read.callback = bufferevent_readcb;
        bev[i].ev_read.arg = &bev[i];
        bufferevent_enable(&bev[i]);
    }
    pthread_create(&loop, NULL, event_base_dispatch, &base);
    pthread_create(&net, NULL, network, NULL);
    for (int i = 0; i < EVENTS; i++)
        bufferevent_disable(&bev[i]);
    pthread_join(net, NULL);
    pthread_mutex_lock(&base.lock);
    base.loopbreak = 1;
    pthread_cond_signal(&base.activated);
    pthread_mutex_unlock(&base.lock);
    pthread_join(loop, NULL);
    for (int i = 0; i < EVENTS; i++) {
        reads += bev[i].reads;
        skipped += bev[i].skipped;
    }
    printf("%u events dispatched, %u reads, %u skipped\n", base.dispatched, reads, skipped);
    return reads + skipped == base.dispatched ? 0 : 1;
}
