/* correct twin of transmission_bandwidth_init: the bandwidth object is made before the event thread is started */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { TR_UP, TR_DOWN };
enum { PULSES = 3, PEERS = 2 };

struct tr_bandwidth {
    unsigned desired_bps[2];
    unsigned bytes_left[2];
    int pulses;
};

struct tr_event_handle {
    pthread_t thread;
    int fds[2];
    int epoll;
};

struct tr_session {
    pthread_mutex_t lock;
    struct tr_event_handle events;
    struct tr_bandwidth *bandwidth;
    unsigned speed_limit[2];
    int peer_count;
};

static struct tr_bandwidth *tr_bandwidth_new(const unsigned *limits) {
    struct tr_bandwidth *b = calloc(1, sizeof *b);
    if (!b)
        exit(2);
    for (int dir = TR_UP; dir <= TR_DOWN; dir++)
        b->desired_bps[dir] = limits[dir] * 1024;
    return b;
}

static void tr_bandwidth_allocate(struct tr_bandwidth *b, int dir, unsigned period_msec) {
    b->bytes_left[dir] = b->desired_bps[dir] * period_msec / 1000;
}

static void bandwidth_pulse(struct tr_session *session) {
    struct tr_bandwidth *b = session->bandwidth;
    tr_bandwidth_allocate(b, TR_UP, 500);
    tr_bandwidth_allocate(b, TR_DOWN, 500);
    b->pulses++;
}

static void *event_thread(void *arg) {
    struct tr_session *session = arg;
    char command;
    /* commands of other threads come through the pipe */
    struct epoll_event ev = { .events = EPOLLIN };
    pthread_mutex_lock(&session->lock);
    session->events.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (session->events.epoll < 0 || epoll_ctl(session->events.epoll, EPOLL_CTL_ADD, session->events.fds[0], &ev) != 0)
        exit(2);
    pthread_mutex_unlock(&session->lock);
    for (int i = 0; i < PULSES; i++)
        bandwidth_pulse(session);
    do {
        if (epoll_wait(session->events.epoll, &ev, 1, -1) != 1 || read(session->events.fds[0], &command, 1) != 1)
            exit(2);
        session->peer_count += command == 'p';
    } while (command != 'q');
    return NULL;
}

static void tr_event_init(struct tr_session *session) {
    pthread_mutex_lock(&session->lock);
    if (pipe(session->events.fds) != 0)
        exit(2);
    pthread_create(&session->events.thread, NULL, event_thread, session);
    pthread_mutex_unlock(&session->lock);
}

static struct tr_session *tr_session_init(unsigned up, unsigned down) {
    struct tr_session *session = calloc(1, sizeof *session);
    if (!session)
        exit(2);
    pthread_mutex_init(&session->lock, NULL);
    session->speed_limit[TR_UP] = up;
    session->speed_limit[TR_DOWN] = down;
    session->bandwidth = tr_bandwidth_new(session->speed_limit);
    tr_event_init(session);
    return session;
}

static void send_command(struct tr_session *session, char command) {
    if (write(session->events.fds[1], &command, 1) != 1)
        exit(2);
}

int main(void) {
    struct tr_session *session = tr_session_init(100, 400);
    for (int i = 0; i < PEERS; i++)
        send_command(session, 'p');
    send_command(session, 'q');
    pthread_join(session->events.thread, NULL);
    int ok = session->peer_count == PEERS && session->bandwidth->pulses == PULSES;
    printf("%d peers, %u bytes up, %u bytes down\n", session->peer_count,
           session->bandwidth->bytes_left[TR_UP], session->bandwidth->bytes_left[TR_DOWN]);
    close(session->events.epoll);
    close(session->events.fds[0]);
    close(session->events.fds[1]);
    free(session->bandwidth);
    free(session);
    return ok ? 0 : 1;
}
