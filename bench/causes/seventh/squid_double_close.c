/* class: file descriptor closed twice; fails by: wrong result; cause: the read handler and the timeout handler both see conn->fd open before either has set it to -1, both close the same number, and the second close fails or hits a descriptor opened by somebody else in between */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONNS = 4, HELPERS = 4, REQLEN = 16 };

struct conn {
    pthread_mutex_t lock;
    volatile int fd;
    char request[REQLEN];
    unsigned n_read;
};

static struct fd_table {
    pthread_mutex_t lock;
    unsigned opened, closed;
    unsigned errors;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct conn conns[CONNS];

static void account(unsigned opened, unsigned closed, unsigned errors) {
    pthread_mutex_lock(&table.lock);
    table.opened += opened;
    table.closed += closed;
    table.errors += errors;
    pthread_mutex_unlock(&table.lock);
}

static void comm_close(struct conn *c) {
    int fd = c->fd; // CAUSE
    if (fd < 0)
        return;
    c->fd = -1; // CAUSE
    int rc = close(fd); // CAUSE
    account(0, 1, rc != 0);
}

static int comm_read(struct conn *c) {
    ssize_t n = 0;
    pthread_mutex_lock(&c->lock);
    if (c->fd >= 0 && c->n_read < REQLEN) {
        n = read(c->fd, c->request + c->n_read, REQLEN / 2);
        if (n > 0)
            c->n_read += (unsigned)n;
    }
    pthread_mutex_unlock(&c->lock);
    return n > 0;
}

static int conn_open(struct conn *c, unsigned id) {
    int p[2];
    char req[REQLEN];
    if (pipe2(p, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    memset(req, 'a' + (int)id, sizeof req);
    if (write(p[1], req, sizeof req) != (ssize_t)sizeof req)
        return -1;
    close(p[1]);
    pthread_mutex_init(&c->lock, NULL);
    c->fd = p[0];
    account(1, 0, 0);
    return 0;
}

static void *read_handler(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < CONNS; i++) {
        while (comm_read(&conns[i]))
            ;
        comm_close(&conns[i]);
    }
    return NULL;
}

static void *timeout_handler(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < CONNS; i++)
        comm_close(&conns[i]);
    return NULL;
}

static void *helper_io(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < HELPERS; i++) {
        int p[2];
        char in = 0, out = (char)(i + 1);
        if (pipe2(p, O_CLOEXEC | O_NONBLOCK) != 0)
            return NULL;
        account(2, 0, 0);
        unsigned bad = write(p[1], &out, 1) != 1;
        bad += read(p[0], &in, 1) != 1 || in != out;
        bad += close(p[0]) != 0;
        bad += close(p[1]) != 0;
        account(0, 2, bad);
    }
    return NULL;
}

int main(void) {
    pthread_t t[3];
    for (unsigned i = 0; i < CONNS; i++)
        if (conn_open(&conns[i], i) != 0)
            return 0;
    pthread_create(&t[0], NULL, read_handler, NULL);
    pthread_create(&t[1], NULL, helper_io, NULL);
    pthread_create(&t[2], NULL, timeout_handler, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    printf("opened %u closed %u errors %u\n", table.opened, table.closed, table.errors);
    if (table.errors || table.opened != table.closed) {
        puts("a descriptor was closed under its owner");
        return 1;
    }
    return 0;
}
