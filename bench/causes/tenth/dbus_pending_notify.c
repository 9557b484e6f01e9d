/* class: lost wake-up (callback set after the event); fails by: hang; cause: the reply comes in and completes the pending call before the caller has set its notify function, so there is no function to call, and the caller then waits for a notification that nobody sends */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct message {
    int serial;
    int value;
};

typedef void (*pending_notify_func)(void *user_data);

struct pending_call {
    int serial;
    int completed;
    struct message reply;
    pending_notify_func function;
    void *user_data;
};

static struct connection {
    pthread_mutex_t mutex;
    int fd;
    int next_serial;
    struct pending_call *pending;
} connection = { .mutex = PTHREAD_MUTEX_INITIALIZER, .next_serial = 1 };

static void fatal(const char *what) {
    perror(what);
    exit(2);
}

static void send_with_reply(int value, struct pending_call *pending) {
    pthread_mutex_lock(&connection.mutex);
    struct message msg = { connection.next_serial++, value };
    *pending = (struct pending_call){ .serial = msg.serial };
    connection.pending = pending;
    pthread_mutex_unlock(&connection.mutex);
    if (write(connection.fd, &msg, sizeof msg) != sizeof msg)
        fatal("write");
}

static void pending_call_set_notify(struct pending_call *pending, pending_notify_func f, void *data) {
    pthread_mutex_lock(&connection.mutex);
    pending->function = f; // CAUSE
    pending->user_data = data;
    pthread_mutex_unlock(&connection.mutex);
}

static void complete_pending(const struct message *reply) {
    pending_notify_func f = NULL;
    void *data = NULL;
    pthread_mutex_lock(&connection.mutex);
    struct pending_call *pending = connection.pending;
    if (pending && pending->serial == reply->serial) {
        pending->reply = *reply;
        pending->completed = 1; // CAUSE
        f = pending->function; // CAUSE
        data = pending->user_data;
        connection.pending = NULL;
    }
    pthread_mutex_unlock(&connection.mutex);
    if (f)
        f(data);
}

static void *dispatcher(void *arg) {
    struct message msg;
    (void)arg;
    while (read(connection.fd, &msg, sizeof msg) == sizeof msg)
        complete_pending(&msg);
    return NULL;
}

static void *service(void *arg) {
    int fd = *(int *)arg;
    struct message msg;
    while (read(fd, &msg, sizeof msg) == sizeof msg) {
        msg.value *= 2;
        if (write(fd, &msg, sizeof msg) != sizeof msg)
            fatal("write");
    }
    return NULL;
}

static void got_reply(void *user_data) {
    sem_post(user_data);
}

int main(void) {
    pthread_t dispatch_thread, service_thread;
    struct pending_call pending;
    sem_t replied;
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
        fatal("socketpair");
    connection.fd = sv[0];
    sem_init(&replied, 0, 0);
    pthread_create(&dispatch_thread, NULL, dispatcher, NULL);
    pthread_create(&service_thread, NULL, service, &sv[1]);
    send_with_reply(21, &pending);
    pending_call_set_notify(&pending, got_reply, &replied);
    sem_wait(&replied);
    int value = pending.reply.value;
    shutdown(sv[0], SHUT_RDWR);
    pthread_join(service_thread, NULL);
    pthread_join(dispatch_thread, NULL);
    close(sv[0]);
    close(sv[1]);
    sem_destroy(&replied);
    printf("reply %d\n", value);
    return value == 42 ? 0 : 1;
}
