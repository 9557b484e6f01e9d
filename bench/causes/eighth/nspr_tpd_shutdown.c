/* class: thread exit (thread-specific data destructor runs after the exit was reported); fails by: wrong result; cause: a thread counts itself out before its thread-private data destructor has flushed its buffer, so PR_Cleanup, which waits for that count, sums the log before the last lines are in */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, EVENTS = 5, BUF_LINES = 4 };

typedef struct log_buf {
    unsigned owner, n;
    struct { unsigned module, level, value; } line[BUF_LINES];
} log_buf_t;

static pthread_key_t log_key;

static struct {
    pthread_mutex_t lock;
    unsigned lines, flushes;
    unsigned long checksum;
} log_sink = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t cv;
    unsigned user, started;
} pt_book = { .lock = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER };

static void log_flush(log_buf_t *b) {
    pthread_mutex_lock(&log_sink.lock);
    for (unsigned i = 0; i < b->n; i++) {
        log_sink.lines++; // CAUSE
        log_sink.checksum += b->line[i].value * (b->line[i].module + 1);
    }
    log_sink.flushes++;
    pthread_mutex_unlock(&log_sink.lock);
    b->n = 0;
}

static void thread_done(void) {
    pthread_mutex_lock(&pt_book.lock);
    if (--pt_book.user == 0) // CAUSE
        pthread_cond_broadcast(&pt_book.cv);
    pthread_mutex_unlock(&pt_book.lock);
}

static void log_destroy(void *arg) {
    log_flush(arg);
    free(arg);
}

static void log_print(unsigned module, unsigned level, unsigned value) {
    log_buf_t *b = pthread_getspecific(log_key);
    if (!b)
        return;
    if (b->n == BUF_LINES)
        log_flush(b);
    b->line[b->n].module = module;
    b->line[b->n].level = level;
    b->line[b->n].value = value;
    b->n++;
}

static void *pt_root(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    log_buf_t *b = calloc(1, sizeof *b);
    b->owner = self;
    pthread_setspecific(log_key, b);
    for (unsigned i = 0; i < EVENTS; i++)
        log_print(self, i & 3, i * 10 + self);
    thread_done();
    return NULL;
}

static int create_thread(unsigned n) {
    pthread_t id;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&pt_book.lock);
    pt_book.user++;
    pt_book.started++;
    pthread_mutex_unlock(&pt_book.lock);
    int rc = pthread_create(&id, &attr, pt_root, (void *)(uintptr_t)n);
    pthread_attr_destroy(&attr);
    return rc;
}

static unsigned cleanup(unsigned long *checksum) {
    pthread_mutex_lock(&pt_book.lock);
    while (pt_book.user)
        pthread_cond_wait(&pt_book.cv, &pt_book.lock); // CAUSE
    pthread_mutex_unlock(&pt_book.lock);
    pthread_mutex_lock(&log_sink.lock);
    unsigned lines = log_sink.lines; // CAUSE
    *checksum = log_sink.checksum;
    pthread_mutex_unlock(&log_sink.lock);
    return lines;
}

int main(void) {
    unsigned long checksum, want = 0;
    pthread_key_create(&log_key, log_destroy);
    for (unsigned n = 0; n < THREADS; n++) {
        for (unsigned i = 0; i < EVENTS; i++)
            want += (i * 10 + n) * (n + 1);
        if (create_thread(n) != 0)
            return 2;
    }
    unsigned lines = cleanup(&checksum);
    printf("%u lines, checksum %lu\n", lines, checksum);
    if (lines != THREADS * EVENTS || checksum != want) {
        fprintf(stderr, "log incomplete at shutdown\n");
        return 1;
    }
    return 0;
}
