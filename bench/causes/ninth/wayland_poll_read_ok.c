/* correct twin of wayland_poll_read: only one thread at a time polls and reads, after it has looked at its queue again, the others wait until that read is done */
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
    pthread_cond_t reader_done;
    int fd, reader;
    struct wl_event_queue queue[QUEUES];
    unsigned reads;
} display = { .mutex = PTHREAD_MUTEX_INITIALIZER, .reader_done = PTHREAD_COND_INITIALIZER };

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

/* if the queue is empty the caller becomes the reader */
static int prepare_read_queue(struct wl_event_queue *q) {
    pthread_mutex_lock(&display.mutex);
    while (q->count == 0 && display.reader)
        pthread_cond_wait(&display.reader_done, &display.mutex);
    int empty = q->count == 0;
    if (empty)
        display.reader = 1;
    pthread_mutex_unlock(&display.mutex);
    return empty;
}

static void wl_display_read_events(void) {
    struct wl_event ev;
    struct pollfd pfd = { .fd = display.fd, .events = POLLIN };
    if (poll(&pfd, 1, -1) < 0)
        fatal("poll");
    if (read(display.fd, &ev, sizeof ev) != sizeof ev)
        fatal("read");
    pthread_mutex_lock(&display.mutex);
    queue_event(&ev);
    display.reader = 0;
    pthread_cond_broadcast(&display.reader_done);
    pthread_mutex_unlock(&display.mutex);
}

/* blocks until there are events for the queue and handles them */
static int wl_display_dispatch_queue(struct wl_event_queue *q, int *sum) {
    while (prepare_read_queue(q))
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
