/* correct twin of wwr_lasterror: last_error is per thread */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { OK, E_RANGE = 34, E_PERM = 13, E_NOENT = 2 };

struct request { int fd, off; int status; };

static _Thread_local int last_error;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static int log_codes[32], nlog;

static void log_failure(int code)
{
    pthread_mutex_lock(&log_lock);
    log_codes[nlog++] = code;
    pthread_mutex_unlock(&log_lock);
}

static int set_error(int code)
{
    last_error = code;
    log_failure(code);
    return -1;
}

static int do_read(int fd, int off)
{
    if (fd < 0) return set_error(E_NOENT);
    if (fd == 0) return set_error(E_PERM);
    if (off > 100) return set_error(E_RANGE);
    return 0;
}

static void *serve(void *arg)
{
    struct request *r = arg;
    for (int i = 0; i < 3; i++, r++)
        r->status = do_read(r->fd, r->off) < 0
            ? last_error
            : OK;
    return NULL;
}

int main(void)
{
    static struct request a[3] = { { 0, 5 }, { 4, 5 }, { 0, 7 } };
    static struct request b[3] = { { 3, 500 }, { 3, 5 }, { -1, 9 } };
    pthread_t t;
    pthread_create(&t, NULL, serve, a);
    serve(b);
    pthread_join(t, NULL);
    if (a[0].status != E_PERM || a[1].status != OK || a[2].status != E_PERM ||
        b[0].status != E_RANGE || b[1].status != OK || b[2].status != E_NOENT) {
        puts("wrong status");
        return 1;
    }
    return nlog != 4;
}
