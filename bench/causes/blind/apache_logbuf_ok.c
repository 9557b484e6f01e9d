/* Twin of apache_logbuf: the buffer has a lock. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LOG_BUFSIZE 128

struct buffered_log {
    pthread_mutex_t mutex;
    int handle;
    int outcnt;
    char outbuf[LOG_BUFSIZE];
};

static struct buffered_log blog = { PTHREAD_MUTEX_INITIALIZER, 3, 0, "" };
static atomic_int requests;

static void flush_log(struct buffered_log *b)
{
    b->outcnt = 0;
    b->handle++;
}

static void log_writer(struct buffered_log *b, const char *s, int len)
{
    pthread_mutex_lock(&b->mutex);
    if (len > LOG_BUFSIZE - b->outcnt)
        flush_log(b);
    int at = b->outcnt;
    for (int i = 0; i < len; i++)
        b->outbuf[at + i] = s[i];
    b->outcnt = at + len;
    pthread_mutex_unlock(&b->mutex);
}

static void *worker(void *arg)
{
    const char *line = arg;
    for (int i = 0; i < 2; i++) {
        atomic_fetch_add(&requests, 1);
        log_writer(&blog, line, 8);
    }
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int whole = 0;
    blog.handle = 4;
    pthread_create(&a, NULL, worker, "GET /a \n");
    pthread_create(&b, NULL, worker, "GET /bb\n");
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    for (int i = 0; i < blog.outcnt; i += 8)
        whole += !memcmp(blog.outbuf + i, "GET /a \n", 8) || !memcmp(blog.outbuf + i, "GET /bb\n", 8);
    printf("%d lines\n", whole);
    return whole != atomic_load(&requests);
}
