/* correct twin of nginx_stale_event: events carry the instance bit of their connection and stale ones are skipped */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { CONNECTIONS = 3, REQUESTS = 3 };

struct connection {
    pthread_mutex_t lock;
    int fd, client_fd;
    unsigned instance : 1;
    unsigned number;
    unsigned requests, bytes, errors;
    struct connection *next_free;
};

static struct cycle {
    int ep, quit;
    pthread_mutex_t free_lock;
    struct connection connections[CONNECTIONS], *free_connections;
    unsigned free_n, accepted;
} cycle = { .free_lock = PTHREAD_MUTEX_INITIALIZER };

static struct connection *get_connection(void) {
    pthread_mutex_lock(&cycle.free_lock);
    struct connection *c = cycle.free_connections;
    cycle.free_connections = c->next_free;
    cycle.free_n--;
    unsigned number = ++cycle.accepted;
    pthread_mutex_unlock(&cycle.free_lock);
    int p[2];
    if (pipe2(p, O_NONBLOCK) != 0)
        exit(2);
    pthread_mutex_lock(&c->lock);
    c->fd = p[0];
    c->client_fd = p[1];
    c->number = number;
    c->instance = !c->instance;
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = (void *)((uintptr_t)c | c->instance) };
    epoll_ctl(cycle.ep, EPOLL_CTL_ADD, c->fd, &ev);
    pthread_mutex_unlock(&c->lock);
    return c;
}

static void free_connection(struct connection *c) {
    pthread_mutex_lock(&c->lock);
    epoll_ctl(cycle.ep, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    close(c->client_fd);
    c->fd = c->client_fd = -1;
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_lock(&cycle.free_lock);
    c->next_free = cycle.free_connections;
    cycle.free_connections = c;
    cycle.free_n++;
    pthread_mutex_unlock(&cycle.free_lock);
}

static void read_request(struct connection *c) {
    char buf[32];
    ssize_t n = read(c->fd, buf, sizeof buf);
    if (n > 0) {
        c->requests++;
        c->bytes += (unsigned)n;
    } else if (n < 0) {
        fprintf(stderr, "connection %u: recv failed (%d)\n", c->number, errno);
        c->errors++;
    }
}

static void *worker(void *arg) {
    struct epoll_event events[4];
    (void)arg;
    for (;;) {
        int n = epoll_wait(cycle.ep, events, 4, -1);
        for (int i = 0; i < n; i++) {
            unsigned instance = (uintptr_t)events[i].data.ptr & 1;
            struct connection *c = (void *)((uintptr_t)events[i].data.ptr & ~(uintptr_t)1);
            if (!c)
                return NULL;
            pthread_mutex_lock(&c->lock);
            if (c->fd != -1 && c->instance == instance)
                read_request(c);
            pthread_mutex_unlock(&c->lock);
        }
    }
}

static void *client(void *arg) {
    struct connection *c = arg;
    for (int i = 0; i < REQUESTS; i++)
        if (write(c->client_fd, "GET / HTTP/1.0\n", 15) != 15)
            exit(2);
    return NULL;
}

static void *expire_timers(void *arg) {
    struct connection *old = arg;
    free_connection(old);
    get_connection();
    return NULL;
}

int main(void) {
    pthread_t w, cl, timer;
    struct connection *c[2];
    unsigned requests = 0, errors = 0;
    cycle.ep = epoll_create1(0);
    cycle.quit = eventfd(0, EFD_NONBLOCK);
    for (int i = CONNECTIONS - 1; i >= 0; i--) {
        pthread_mutex_init(&cycle.connections[i].lock, NULL);
        cycle.connections[i].next_free = cycle.free_connections;
        cycle.free_connections = &cycle.connections[i];
        cycle.free_n++;
    }
    for (int i = 0; i < 2; i++)
        c[i] = get_connection();
    if (write(c[1]->client_fd, "OPTIONS *\n", 10) != 10)
        return 2;
    pthread_create(&w, NULL, worker, NULL);
    pthread_create(&cl, NULL, client, c[0]);
    pthread_create(&timer, NULL, expire_timers, c[1]);
    pthread_join(cl, NULL);
    pthread_join(timer, NULL);
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };
    eventfd_write(cycle.quit, 1);
    epoll_ctl(cycle.ep, EPOLL_CTL_ADD, cycle.quit, &ev);
    pthread_join(w, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        requests += cycle.connections[i].requests;
        errors += cycle.connections[i].errors;
    }
    printf("accepted %u requests %u errors %u\n", cycle.accepted, requests, errors);
    return errors == 0 && cycle.free_n == 1 && requests <= REQUESTS + 1 ? 0 : 1;
}
