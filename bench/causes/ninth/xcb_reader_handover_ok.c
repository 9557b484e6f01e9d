/* correct twin of xcb_reader_handover: a thread that ends its read wakes the waiters in every case, one of them reads on */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 3, REQUESTS = 2, MAX_SEQ = CLIENTS * REQUESTS + 1 };

struct reply {
    unsigned sequence;
    int value;
};

static struct connection {
    pthread_mutex_t iolock;
    pthread_cond_t replied;
    int fd, server_fd;
    unsigned request;
    int reading;
    int got[MAX_SEQ];
    struct reply replies[MAX_SEQ];
    unsigned reads, waits;
} c = { .iolock = PTHREAD_MUTEX_INITIALIZER, .replied = PTHREAD_COND_INITIALIZER };

static void io_error(const char *what) {
    perror(what);
    exit(2);
}

/* the server answers in the order of the requests, the answers wait in the socket */
static void server_handle(unsigned sequence, int arg) {
    struct reply r = { .sequence = sequence, .value = arg * arg };
    if (write(c.server_fd, &r, sizeof r) != sizeof r)
        io_error("write");
}

static unsigned send_request(int arg) {
    pthread_mutex_lock(&c.iolock);
    unsigned sequence = ++c.request;
    server_handle(sequence, arg);
    pthread_mutex_unlock(&c.iolock);
    return sequence;
}

/* called with iolock held, which is given up during the read */
static void conn_read_one(void) {
    struct reply r;
    c.reading = 1;
    pthread_mutex_unlock(&c.iolock);
    if (read(c.fd, &r, sizeof r) != sizeof r)
        io_error("read");
    pthread_mutex_lock(&c.iolock);
    c.reading = 0;
    c.reads++;
    c.replies[r.sequence] = r;
    c.got[r.sequence] = 1;
    pthread_cond_broadcast(&c.replied);
}

static struct reply wait_for_reply(unsigned sequence) {
    pthread_mutex_lock(&c.iolock);
    while (!c.got[sequence]) {
        if (c.reading) {
            c.waits++;
            pthread_cond_wait(&c.replied, &c.iolock);
        } else {
            conn_read_one();
        }
    }
    struct reply r = c.replies[sequence];
    pthread_mutex_unlock(&c.iolock);
    return r;
}

struct client {
    pthread_t thread;
    int arg;
    unsigned answered, wrong;
};

static void *client_main(void *p) {
    struct client *client = p;
    for (int i = 0; i < REQUESTS; i++) {
        int arg = client->arg + i;
        unsigned sequence = send_request(arg);
        struct reply r = wait_for_reply(sequence);
        if (r.sequence == sequence && r.value == arg * arg)
            client->answered++;
        else
            client->wrong++;
    }
    return NULL;
}

int main(void) {
    struct client client[CLIENTS];
    unsigned answered = 0, wrong = 0;
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
        io_error("socketpair");
    c.fd = sv[0];
    c.server_fd = sv[1];
    memset(client, 0, sizeof client);
    for (int i = 0; i < CLIENTS; i++) {
        client[i].arg = 10 * (i + 1);
        pthread_create(&client[i].thread, NULL, client_main, &client[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(client[i].thread, NULL);
        answered += client[i].answered;
        wrong += client[i].wrong;
    }
    close(sv[0]);
    close(sv[1]);
    printf("%u requests answered, %u wrong, %u reads\n", answered, wrong, c.reads);
    return answered == CLIENTS * REQUESTS && wrong == 0 ? 0 : 1;
}
