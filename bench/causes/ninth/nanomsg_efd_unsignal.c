/* class: order violation (state of an eventfd); fails by: hang; cause: the receiver takes the last message and resets the eventfd only after the lock is gone, and a message that was queued and signaled in between loses its signal */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SENDERS = 2, MESSAGES = 4 };

struct nn_msg {
    struct nn_msg *next;
    int sender, number;
    char body[24];
};

static struct nn_sock {
    pthread_mutex_t sync;
    struct nn_msg *head, **tail;
    int rcvfd; /* readable as long as there are messages */
    unsigned signals, unsignals;
} sock = { .sync = PTHREAD_MUTEX_INITIALIZER };

static void fatal(const char *what) {
    perror(what);
    exit(2);
}

static void nn_efd_signal(int efd) {
    uint64_t one = 1;
    if (write(efd, &one, sizeof one) != sizeof one) // CAUSE
        fatal("write");
}

static void nn_efd_unsignal(int efd) {
    uint64_t count;
    if (read(efd, &count, sizeof count) != sizeof count) // CAUSE
        fatal("read");
}

static void nn_efd_wait(int efd) {
    struct pollfd pfd = { .fd = efd, .events = POLLIN };
    if (poll(&pfd, 1, -1) < 0)
        fatal("poll");
}

static void nn_send(struct nn_msg *msg) {
    pthread_mutex_lock(&sock.sync);
    int was_empty = sock.head == NULL;
    msg->next = NULL;
    *sock.tail = msg;
    sock.tail = &msg->next;
    if (was_empty) {
        sock.signals++;
        nn_efd_signal(sock.rcvfd);
    }
    pthread_mutex_unlock(&sock.sync);
}

static struct nn_msg *nn_recv(void) {
    nn_efd_wait(sock.rcvfd);
    pthread_mutex_lock(&sock.sync);
    struct nn_msg *msg = sock.head;
    int now_empty = 0;
    if (msg) {
        sock.head = msg->next; // CAUSE
        if (!sock.head) {
            sock.tail = &sock.head;
            sock.unsignals++;
            now_empty = 1;
        }
    }
    pthread_mutex_unlock(&sock.sync);
    if (now_empty)
        nn_efd_unsignal(sock.rcvfd);
    return msg;
}

static void *sender_main(void *arg) {
    int me = *(int *)arg;
    for (int i = 0; i < MESSAGES; i++) {
        struct nn_msg *msg = malloc(sizeof *msg);
        msg->sender = me;
        msg->number = i;
        snprintf(msg->body, sizeof msg->body, "message %d of %d", i, me);
        nn_send(msg);
    }
    return NULL;
}

static unsigned received, bad;

static void *receiver_main(void *arg) {
    int next[SENDERS] = { 0 };
    (void)arg;
    while (received < SENDERS * MESSAGES) {
        struct nn_msg *msg = nn_recv();
        if (!msg)
            continue;
        if (msg->number != next[msg->sender]++ || strncmp(msg->body, "message", 7) != 0)
            bad++;
        received++;
        free(msg);
    }
    return NULL;
}

int main(void) {
    static int id[SENDERS] = { 0, 1 };
    pthread_t receiver, sender[SENDERS];
    sock.tail = &sock.head;
    sock.rcvfd = eventfd(0, 0);
    if (sock.rcvfd < 0)
        fatal("eventfd");
    for (int i = 0; i < SENDERS; i++)
        pthread_create(&sender[i], NULL, sender_main, &id[i]);
    pthread_create(&receiver, NULL, receiver_main, NULL);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(sender[i], NULL);
    pthread_join(receiver, NULL);
    close(sock.rcvfd);
    printf("%u messages, %u bad, %u signals, %u unsignals\n", received, bad, sock.signals, sock.unsignals);
    return received == SENDERS * MESSAGES && bad == 0 ? 0 : 1;
}
