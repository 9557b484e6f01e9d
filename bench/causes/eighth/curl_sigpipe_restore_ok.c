/* correct twin of curl_sigpipe_restore: the transfers leave the disposition alone and send with MSG_NOSIGNAL */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HANDLES = 2, REQUESTS = 2 };

struct easy {
    int id, sock, peer;
    char request[64];
    size_t len;
    unsigned sent, resets;
};

static struct share {
    pthread_mutex_t lock;
    unsigned connects, bytes, retired;
    unsigned hosts[4];
} share = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int easy_connect(struct easy *e) {
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
        return -1;
    e->sock = sv[0];
    e->peer = sv[1];
    pthread_mutex_lock(&share.lock);
    share.connects++;
    share.hosts[e->id & 3]++;
    pthread_mutex_unlock(&share.lock);
    return 0;
}

static int easy_send(struct easy *e) {
    ssize_t n = send(e->sock, e->request, e->len, MSG_NOSIGNAL);
    int err = errno;
    if (n < 0) {
        if (err != EPIPE)
            return -1;
        e->resets++;
        return 0;
    }
    e->sent++;
    pthread_mutex_lock(&share.lock);
    share.bytes += (unsigned)n;
    pthread_mutex_unlock(&share.lock);
    return 1;
}

static void *easy_perform(void *arg) {
    struct easy *e = arg;
    for (int r = 0; r < REQUESTS; r++) {
        if (easy_connect(e) != 0)
            return (void *)1;
        e->len = (size_t)snprintf(e->request, sizeof e->request, "GET /%d/%d HTTP/1.1\r\n\r\n", e->id, r);
        if (r == REQUESTS - 1)
            shutdown(e->peer, SHUT_RDWR);
        if (easy_send(e) < 0)
            return (void *)1;
        close(e->sock);
        close(e->peer);
        pthread_mutex_lock(&share.lock);
        share.retired++;
        pthread_mutex_unlock(&share.lock);
    }
    return NULL;
}

int main(void) {
    static struct easy handles[HANDLES];
    pthread_t t[HANDLES];
    unsigned failed = 0, resets = 0, sent = 0;
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < HANDLES; i++) {
        handles[i].id = i;
        pthread_create(&t[i], NULL, easy_perform, &handles[i]);
    }
    for (int i = 0; i < HANDLES; i++) {
        void *rc;
        pthread_join(t[i], &rc);
        failed += rc != NULL;
        resets += handles[i].resets;
        sent += handles[i].sent;
    }
    printf("connects %u sent %u resets %u\n", share.connects, sent, resets);
    return !failed && resets == HANDLES && sent == HANDLES * (REQUESTS - 1) && share.retired == share.connects ? 0 : 1;
}
