/* correct twin of rsyslog_cancel_batch: the worker may only be cancelled while it waits for messages, not from dequeue to the end of the write */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 6 };

struct msg {
    struct msg *next;
    unsigned severity, facility;
    char text[48];
};

static struct queue {
    pthread_mutex_t mut;
    pthread_cond_t not_empty, drained;
    struct msg *head, **tail;
    unsigned size, enqueued, max_size;
} q = { .mut = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER,
        .drained = PTHREAD_COND_INITIALIZER };

static struct action {
    int fd;
    char name[64];
    pthread_mutex_t stat_mut;
    unsigned processed, by_severity[8];
} action = { .stat_mut = PTHREAD_MUTEX_INITIALIZER };

static void unlock_queue(void *arg) {
    pthread_mutex_unlock(arg);
}

static void enqueue(unsigned i) {
    struct msg *m = calloc(1, sizeof *m);
    m->severity = i & 7;
    m->facility = 3;
    snprintf(m->text, sizeof m->text, "<%u>daemon: message %u\n", m->facility * 8 + m->severity, i);
    pthread_mutex_lock(&q.mut);
    *q.tail = m;
    q.tail = &m->next;
    q.enqueued++;
    if (++q.size > q.max_size)
        q.max_size = q.size;
    pthread_cond_signal(&q.not_empty);
    pthread_mutex_unlock(&q.mut);
}

static struct msg *dequeue(void) {
    struct msg *m;
    pthread_mutex_lock(&q.mut);
    pthread_cleanup_push(unlock_queue, &q.mut);
    while (!q.head)
        pthread_cond_wait(&q.not_empty, &q.mut);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    m = q.head;
    q.head = m->next;
    if (!q.head)
        q.tail = &q.head;
    if (--q.size == 0)
        pthread_cond_signal(&q.drained);
    pthread_cleanup_pop(1);
    return m;
}

static void process(struct msg *m) {
    ssize_t n = write(action.fd, m->text, strlen(m->text));
    if (n > 0) {
        pthread_mutex_lock(&action.stat_mut);
        action.processed++;
        action.by_severity[m->severity]++;
        pthread_mutex_unlock(&action.stat_mut);
    }
    free(m);
}

static void *worker(void *arg) {
    (void)arg;
    for (;;) {
        process(dequeue());
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    }
    return NULL;
}

static void *input(void *arg) {
    unsigned first = *(unsigned *)arg;
    for (unsigned i = 0; i < MESSAGES / 2; i++)
        enqueue(first + i);
    return NULL;
}

static void shutdown_worker(pthread_t w) {
    pthread_mutex_lock(&q.mut);
    while (q.size)
        pthread_cond_wait(&q.drained, &q.mut);
    pthread_mutex_unlock(&q.mut);
    pthread_cancel(w);
    pthread_join(w, NULL);
}

static unsigned count_lines(void) {
    char buf[512];
    unsigned lines = 0;
    ssize_t n = pread(action.fd, buf, sizeof buf, 0);
    for (ssize_t i = 0; i < n; i++)
        lines += buf[i] == '\n';
    return lines;
}

int main(void) {
    pthread_t w, in[2];
    unsigned first[2] = { 0, MESSAGES / 2 };
    q.tail = &q.head;
    snprintf(action.name, sizeof action.name, "/tmp/rsyslog-%d.log", (int)getpid());
    action.fd = open(action.name, O_CREAT | O_RDWR | O_TRUNC | O_APPEND, 0600);
    if (action.fd < 0)
        return 2;
    unlink(action.name);
    pthread_create(&w, NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&in[i], NULL, input, &first[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(in[i], NULL);
    shutdown_worker(w);
    unsigned lines = count_lines();
    printf("enqueued %u processed %u lines %u\n", q.enqueued, action.processed, lines);
    return lines == q.enqueued && action.processed == lines ? 0 : 1;
}
