/* class: signal handler (errno not preserved); fails by: abort; cause: the SIGCHLD handler runs between the session's failed read and its test of errno and overwrites errno with ECHILD, so a harmless EAGAIN is taken for a fatal error */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKETS = 4, CHILD_EVENTS = 3 };

struct packet {
    unsigned seq, len;
    char payload[24];
};

static struct session {
    int channel[2];
    int signal_pipe[2];
    pthread_t loop;
    unsigned packets, bytes, polls;
    volatile sig_atomic_t childstate_changed;
} ses;

static struct {
    pthread_mutex_t lock;
    unsigned reaped, started;
} children = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void sesssigchld_handler(int signo) {
    (void)signo;
    while (waitpid(-1, NULL, WNOHANG) > 0) // CAUSE
        continue;
    ses.childstate_changed = 1;
    if (write(ses.signal_pipe[1], "", 1) < 0)
        ses.childstate_changed = 2;
}

static int read_packet(struct packet *p) {
    ssize_t n = read(ses.channel[0], p, sizeof *p); // CAUSE
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) // CAUSE
            return 0;
        fprintf(stderr, "Error reading channel: %s\n", strerror(errno));
        abort();
    }
    if (n == 0)
        return -1;
    ses.packets++;
    ses.bytes += p->len;
    return 1;
}

static void check_signals(void) {
    char buf[8];
    if (ses.childstate_changed) {
        ses.childstate_changed = 0;
        while (read(ses.signal_pipe[0], buf, sizeof buf) > 0) {
            pthread_mutex_lock(&children.lock);
            children.reaped++;
            pthread_mutex_unlock(&children.lock);
        }
    }
}

static void *session_loop(void *arg) {
    struct packet p;
    (void)arg;
    for (;;) {
        int r = read_packet(&p);
        if (r < 0)
            break;
        if (r == 0) {
            struct pollfd fds[2] = { { ses.channel[0], POLLIN, 0 }, { ses.signal_pipe[0], POLLIN, 0 } };
            ses.polls++;
            poll(fds, 2, -1);
        }
        check_signals();
    }
    return NULL;
}

static void *server_process(void *arg) {
    (void)arg;
    for (int i = 0; i < CHILD_EVENTS; i++) {
        pthread_mutex_lock(&children.lock);
        children.started++;
        pthread_mutex_unlock(&children.lock);
        pthread_kill(ses.loop, SIGCHLD); // CAUSE
    }
    return NULL;
}

int main(void) {
    struct sigaction sa = { .sa_handler = sesssigchld_handler, .sa_flags = SA_NOCLDSTOP | SA_RESTART };
    pthread_t server;
    if (pipe2(ses.channel, O_NONBLOCK) != 0 || pipe2(ses.signal_pipe, O_NONBLOCK) != 0)
        return 2;
    sigaction(SIGCHLD, &sa, NULL);
    pthread_create(&ses.loop, NULL, session_loop, NULL);
    pthread_create(&server, NULL, server_process, NULL);
    for (unsigned i = 0; i < PACKETS; i++) {
        struct packet p = { .seq = i };
        p.len = (unsigned)snprintf(p.payload, sizeof p.payload, "channel data %u", i);
        if (write(ses.channel[1], &p, sizeof p) != sizeof p)
            return 2;
    }
    pthread_join(server, NULL);
    close(ses.channel[1]);
    pthread_join(ses.loop, NULL);
    printf("packets %u bytes %u\n", ses.packets, ses.bytes);
    return ses.packets == PACKETS && ses.bytes == PACKETS * 14 && children.started == CHILD_EVENTS ? 0 : 1;
}
