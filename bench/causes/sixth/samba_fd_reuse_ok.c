/* repaired twin of samba_fd_reuse.c */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { AIO_JOBS = 8, SESSIONS = 3 };

struct smbd_conn {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    int notify_fd;
    int users;
    unsigned jobs_done, jobs_dropped;
};

static struct smbd_conn conn = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .idle = PTHREAD_COND_INITIALIZER,
    .notify_fd = -1,
};
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned log_lines;
static int fds[SESSIONS];

static void debug_line(void) {
    pthread_mutex_lock(&log_lock);
    log_lines++;
    pthread_mutex_unlock(&log_lock);
}

static void aio_complete(struct smbd_conn *c) {
    uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    int fd = c->notify_fd;
    if (fd < 0)
        c->jobs_dropped++;
    else
        c->users++;
    pthread_mutex_unlock(&c->lock);
    if (fd < 0)
        return;
    if (write(fd, &one, sizeof one) < 0)
        debug_line();
    pthread_mutex_lock(&c->lock);
    c->jobs_done++;
    if (--c->users == 0)
        pthread_cond_signal(&c->idle);
    pthread_mutex_unlock(&c->lock);
}

static void conn_shutdown(struct smbd_conn *c) {
    pthread_mutex_lock(&c->lock);
    int fd = c->notify_fd;
    c->notify_fd = -1;
    while (c->users > 0)
        pthread_cond_wait(&c->idle, &c->lock);
    pthread_mutex_unlock(&c->lock);
    if (fd >= 0)
        close(fd);
}

static void *aio_thread(void *arg) {
    struct smbd_conn *c = arg;
    for (int i = 0; i < AIO_JOBS; i++) {
        aio_complete(c);
        debug_line();
    }
    return NULL;
}

static void *session_thread(void *arg) {
    struct smbd_conn *c = arg;
    long strange = 0;
    debug_line();
    conn_shutdown(c);
    for (int i = 0; i < SESSIONS; i++)
        fds[i] = eventfd(0, EFD_NONBLOCK);
    for (int i = 0; i < SESSIONS; i++) {
        uint64_t v = 0, tick = 5;
        if (write(fds[i], &tick, sizeof tick) < 0 || read(fds[i], &v, sizeof v) < 0)
            debug_line();
        if (v != tick)
            strange++;
    }
    /* the sessions stay open until the server ends */
    return (void *)strange;
}

int main(void) {
    pthread_t t[2];
    void *strange;
    conn.notify_fd = eventfd(0, EFD_NONBLOCK);
    pthread_create(&t[0], NULL, aio_thread, &conn);
    pthread_create(&t[1], NULL, session_thread, &conn);
    pthread_join(t[0], NULL);
    pthread_join(t[1], &strange);
    printf("done %u dropped %u log %u\n", conn.jobs_done, conn.jobs_dropped, log_lines);
    uint64_t v;
    for (int i = 0; i < SESSIONS; i++)
        if (read(fds[i], &v, sizeof v) == sizeof v)
            strange = (char *)strange + 1;
    if (strange) {
        puts("a foreign wake-up arrived in a new session");
        return 1;
    }
    return 0;
}
