/* class: atomicity violation (state of a socket); fails by: hang; cause: a thread has found its queue empty and the socket readable when another thread reads the event out of the socket and queues it, and the first thread then waits in read for an event that never comes */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUES = 2, EVENTS = 3 };

struct wl_event {
    int queue;
    int opcode;
};

struct wl_event_queue {
    struct wl_event pending[QUEUES * EVENTS];
    int count, dispatched;
};

static struct wl_display {
    pthread_mutex_t mutex;
    int fd;
    struct wl_event_queue queue[QUEUES];
    unsigned reads;
} display = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void fatal(const char *what) {
    perror(what);
    exit(2);
}

static void queue_event(const struct wl_event *ev) {
    struct wl_event_queue *q = &display.queue[ev->queue];
    q->pending[q->count++] = *ev;
    display.reads++;
}

static int dispatch_pending(struct wl_event_queue *q, int *sum) {
    int n = q->count;
    for (int i = 0; i < n; i++)
        *sum += q->pending[i].opcode;
    q->count = 0;
    q->dispatched += n;
    return n;
}

static int queue_is_empty(struct wl_event_queue *q) {
    pthread_mutex_lock(&display.mutex);
    int empty = q->count == 0; // CAUSE
    pthread_mutex_unlock(&display.mutex);
    return empty;
}

static void wl_display_read_events(void) {
    struct wl_event ev;
    struct pollfd pfd = { .fd = display.fd, .events = POLLIN };
    if (poll(&pfd, 1, -1) < 0) // CAUSE
        fatal("poll");
    if (read(display.fd, &ev, sizeof ev) != sizeof ev) // CAUSE
        fatal("read");
    pthread_mutex_lock(&display.mutex);
    queue_event(&ev);
    pthread_mutex_unlock(&display.mutex);
}

/* blocks until there are events for the queue and handles them */
static int wl_display_dispatch_queue(struct wl_event_queue *q, int *sum) {
    while (queue_is_empty(q))
        wl_display_read_events();
    pthread_mutex_lock(&display.mutex);
    int n = dispatch_pending(q, sum);
    pthread_mutex_unlock(&display.mutex);
    return n;
}

struct client {
    pthread_t thread;
    int queue, sum, rounds;
};

static void *client_main(void *arg) {
    struct client *cl = arg;
    int handled = 0;
    while (handled < EVENTS) {
        handled += wl_display_dispatch_queue(&display.queue[cl->queue], &cl->sum);
        cl->rounds++;
    }
    return NULL;
}

static void compositor(int fd) {
    for (int i = 0; i < EVENTS; i++) {
        for (int q = 0; q < QUEUES; q++) {
            struct wl_event ev = { .queue = q, .opcode = 10 * q + i + 1 };
            if (write(fd, &ev, sizeof ev) != sizeof ev)
                fatal("write");
        }
    }
}

int main(void) {
    struct client cl[QUEUES];
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
        fatal("socketpair");
    display.fd = sv[0];
    memset(cl, 0, sizeof cl);
    compositor(sv[1]);
    for (int i = 0; i < QUEUES; i++) {
        cl[i].queue = i;
        pthread_create(&cl[i].thread, NULL, client_main, &cl[i]);
    }
    for (int i = 0; i < QUEUES; i++)
        pthread_join(cl[i].thread, NULL);
    close(sv[0]);
    close(sv[1]);
    printf("%u events read, sums %d and %d\n", display.reads, cl[0].sum, cl[1].sum);
    return cl[0].sum == 6 && cl[1].sum == 36 && display.reads == QUEUES * EVENTS ? 0 : 1;
}
