/* repaired twin of etcd_waitgroup_add.c */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 2, REQUESTS = 6, KEYS = 4, VALUE = 24 };

struct wait_group {
    pthread_mutex_t lock;
    pthread_cond_t zero;
    int n;
};

struct request {
    struct request *next;
    unsigned key;
    unsigned char value[VALUE];
};

struct server {
    pthread_mutex_t lock;
    pthread_cond_t more, empty;
    struct request *first, **last;
    bool stopping;
    struct wait_group wg;
    struct {
        pthread_mutex_t lock;
        volatile bool open;
        uint32_t rev[KEYS];
        unsigned puts;
    } store;
};

static struct server srv = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .more = PTHREAD_COND_INITIALIZER,
    .empty = PTHREAD_COND_INITIALIZER,
    .wg = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 },
    .store = { .lock = PTHREAD_MUTEX_INITIALIZER, .open = true },
};

static void wg_add(struct wait_group *wg, int delta) {
    pthread_mutex_lock(&wg->lock);
    wg->n += delta;
    if (wg->n == 0)
        pthread_cond_broadcast(&wg->zero);
    pthread_mutex_unlock(&wg->lock);
}

static void wg_wait(struct wait_group *wg) {
    pthread_mutex_lock(&wg->lock);
    while (wg->n > 0)
        pthread_cond_wait(&wg->zero, &wg->lock);
    pthread_mutex_unlock(&wg->lock);
}

static void store_put(struct request *r) {
    uint32_t h = 7;
    for (int i = 0; i < VALUE; i++)
        h = h * 31 + r->value[i];
    if (!srv.store.open) {
        fprintf(stderr, "panic: put into a closed store\n");
        abort();
    }
    pthread_mutex_lock(&srv.store.lock);
    srv.store.rev[r->key] ^= h;
    srv.store.puts++;
    pthread_mutex_unlock(&srv.store.lock);
}

static void propose(unsigned n) {
    struct request *r = calloc(1, sizeof *r);
    r->key = n % KEYS;
    for (unsigned i = 0; i < VALUE; i++)
        r->value[i] = (unsigned char)(n * i);
    pthread_mutex_lock(&srv.lock);
    *srv.last = r;
    srv.last = &r->next;
    pthread_cond_signal(&srv.more);
    pthread_mutex_unlock(&srv.lock);
}

static void *apply_loop(void *arg) {
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&srv.lock);
        if (!srv.first)
            pthread_cond_broadcast(&srv.empty);
        while (!srv.first && !srv.stopping)
            pthread_cond_wait(&srv.more, &srv.lock);
        struct request *r = srv.first;
        if (!r) {
            pthread_mutex_unlock(&srv.lock);
            return NULL;
        }
        srv.first = r->next;
        if (!srv.first)
            srv.last = &srv.first;
        wg_add(&srv.wg, 1);
        pthread_mutex_unlock(&srv.lock);
        store_put(r);
        free(r);
        wg_add(&srv.wg, -1);
    }
}

static void stop_server(void) {
    pthread_mutex_lock(&srv.lock);
    srv.stopping = true;
    pthread_cond_broadcast(&srv.more);
    while (srv.first)
        pthread_cond_wait(&srv.empty, &srv.lock);
    pthread_mutex_unlock(&srv.lock);
    wg_wait(&srv.wg);
    srv.store.open = false;
}

static void *client(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < REQUESTS; i++)
        propose(i);
    return NULL;
}

int main(void) {
    pthread_t w[WORKERS], c;
    srv.last = &srv.first;
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&w[i], NULL, apply_loop, NULL);
    pthread_create(&c, NULL, client, NULL);
    pthread_join(c, NULL);
    stop_server();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(w[i], NULL);
    printf("puts %u\n", srv.store.puts);
    return srv.store.puts == REQUESTS ? 0 : 1;
}
