/* class: atomicity violation (shared pointer read and replaced); fails by: abort; cause: two connections that share a session handle a NewSessionTicket at once, and both read the pointer to the same old ticket and free it before either has taken it out of the session */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 8, BLOCK_SIZE = 32, CONNECTIONS = 2, TICKETS = 2 };

/* a debugging allocator: blocks are never given back to libc */
static struct {
    pthread_mutex_t lock;
    int used[BLOCKS];
    unsigned char data[BLOCKS][BLOCK_SIZE];
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned char *crypto_malloc(void) {
    unsigned char *p = NULL;
    pthread_mutex_lock(&heap.lock);
    for (int i = 0; i < BLOCKS && !p; i++) {
        if (!heap.used[i]) {
            heap.used[i] = 1;
            p = heap.data[i];
        }
    }
    pthread_mutex_unlock(&heap.lock);
    if (!p)
        exit(2);
    return p;
}

static void crypto_free(unsigned char *p) {
    if (!p)
        return;
    int i = (int)((p - heap.data[0]) / BLOCK_SIZE);
    pthread_mutex_lock(&heap.lock);
    assert(heap.used[i]);
    heap.used[i] = 0;
    pthread_mutex_unlock(&heap.lock);
}

struct ssl_session {
    int references;
    int session_id;
    unsigned char *tick;
    unsigned long tick_lifetime;
};

struct ssl {
    pthread_t thread;
    int id, tickets;
    struct ssl_session *session;
};

static void session_free(struct ssl_session *sess) {
    if (__atomic_sub_fetch(&sess->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    crypto_free(sess->tick);
    free(sess);
}

static void get_new_session_ticket(struct ssl *s, const char *msg, unsigned long lifetime) {
    struct ssl_session *sess = s->session;
    if (sess->tick) {
        crypto_free(sess->tick); // CAUSE
        sess->tick = NULL; // CAUSE
    }
    unsigned char *tick = crypto_malloc();
    memset(tick, 0, BLOCK_SIZE);
    memcpy(tick, msg, strlen(msg));
    sess->tick = tick;
    sess->tick_lifetime = lifetime;
    s->tickets++;
}

static void *connection(void *arg) {
    struct ssl *s = arg;
    char msg[BLOCK_SIZE / 2];
    for (int i = 0; i < TICKETS; i++) {
        memset(msg, 'a' + s->id, sizeof msg);
        msg[sizeof msg - 1] = 0;
        get_new_session_ticket(s, msg, 100 + i);
    }
    return NULL;
}

int main(void) {
    struct ssl conn[CONNECTIONS];
    struct ssl_session *resumed = calloc(1, sizeof *resumed);
    if (!resumed)
        return 2;
    resumed->references = CONNECTIONS;
    resumed->session_id = 42;
    resumed->tick = crypto_malloc();
    memcpy(resumed->tick, "first", 6);
    for (int i = 0; i < CONNECTIONS; i++) {
        conn[i] = (struct ssl){ .id = i, .session = resumed };
        pthread_create(&conn[i].thread, NULL, connection, &conn[i]);
    }
    int tickets = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        pthread_join(conn[i].thread, NULL);
        tickets += conn[i].tickets;
    }
    for (int i = 0; i < CONNECTIONS; i++)
        session_free(conn[i].session);
    printf("%d tickets received\n", tickets);
    return 0;
}
