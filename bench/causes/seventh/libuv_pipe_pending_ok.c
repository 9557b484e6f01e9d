/* repaired twin of libuv_pipe_pending.c */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SENDERS = 2, MESSAGES = 5, BODY = 20 };
enum kind { WORK, CLOSE };

struct msg {
    struct msg *next;
    enum kind kind;
    unsigned from, seq;
    unsigned char body[BODY];
};

struct async {
    int pending;
    int rfd, wfd;
};

struct loop {
    struct async async;
    pthread_mutex_t queue_lock;
    struct msg *first, **last;
    unsigned handled, wakeups;
    unsigned next_seq[SENDERS];
    unsigned errors;
    unsigned long digest;
    bool closing;
};

static struct loop loop = { .queue_lock = PTHREAD_MUTEX_INITIALIZER };

static void async_send(struct async *a) {
    if (__atomic_exchange_n(&a->pending, 1, __ATOMIC_SEQ_CST) != 0)
        return;
    if (write(a->wfd, "", 1) != 1)
        abort();
}

static void post(struct loop *l, enum kind kind, unsigned from, unsigned seq) {
    struct msg *m = calloc(1, sizeof *m);
    m->kind = kind, m->from = from, m->seq = seq;
    for (unsigned i = 0; i < BODY; i++)
        m->body[i] = (unsigned char)(from * 50 + seq + i);
    pthread_mutex_lock(&l->queue_lock);
    *l->last = m;
    l->last = &m->next;
    pthread_mutex_unlock(&l->queue_lock);
    async_send(&l->async);
}

static void handle(struct loop *l, struct msg *m) {
    if (m->kind == CLOSE) {
        l->closing = true;
        return;
    }
    if (m->seq != l->next_seq[m->from]++)
        l->errors++;
    for (unsigned i = 0; i < BODY; i++)
        l->digest = l->digest * 31 + m->body[i];
    l->handled++;
}

static struct msg *take_queue(struct loop *l) {
    pthread_mutex_lock(&l->queue_lock);
    struct msg *m = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->queue_lock);
    return m;
}

static void handle_all(struct loop *l, struct msg *m) {
    while (m) {
        struct msg *next = m->next;
        handle(l, m);
        free(m);
        m = next;
    }
}

static void async_io(struct loop *l) {
    __atomic_store_n(&l->async.pending, 0, __ATOMIC_SEQ_CST);
    struct msg *m = take_queue(l);
    handle_all(l, m);
}

static void *loop_thread(void *arg) {
    struct loop *l = arg;
    while (!l->closing) {
        char buf[8];
        if (read(l->async.rfd, buf, sizeof buf) <= 0)
            abort();
        l->wakeups++;
        async_io(l);
    }
    return NULL;
}

static void *sender(void *arg) {
    unsigned id = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < MESSAGES; i++)
        post(&loop, WORK, id, i);
    return NULL;
}

int main(void) {
    pthread_t lt, t[SENDERS];
    int fds[2];
    if (pipe(fds) != 0)
        return 0;
    loop.async.rfd = fds[0], loop.async.wfd = fds[1];
    loop.last = &loop.first;
    pthread_create(&lt, NULL, loop_thread, &loop);
    for (unsigned i = 0; i < SENDERS; i++)
        pthread_create(&t[i], NULL, sender, (void *)(uintptr_t)i);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(t[i], NULL);
    post(&loop, CLOSE, 0, 0);
    pthread_join(lt, NULL);
    printf("handled %u wakeups %u digest %lx\n", loop.handled, loop.wakeups, loop.digest);
    return loop.handled == SENDERS * MESSAGES && loop.errors == 0 ? 0 : 1;
}
