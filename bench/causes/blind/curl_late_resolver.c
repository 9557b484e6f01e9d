/* class: order violation (a thread ends too late); fails by: exit; cause: the resolver thread sets done before its last
 * write, so that this late write lands in the request that the transfer has cleared and reused for the next host.
 * Modelled on curl's threaded resolver (asyn-thread.c, thread_sync_data and its done flag). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct request {
    char host[16];
    unsigned addr;
    int port;
};

struct sync_data {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int done;
};

static struct request req;
static struct sync_data tsd = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
static atomic_int resolved;

static unsigned lookup(const char *host)
{
    unsigned h = 0;
    while (*host)
        h = h * 31 + (unsigned char)*host++;
    return h;
}

static void set_done(struct sync_data *t)
{
    pthread_mutex_lock(&t->mutex);
    t->done = 1; // CAUSE
    pthread_cond_signal(&t->cond);
    pthread_mutex_unlock(&t->mutex);
}

static void wait_done(struct sync_data *t)
{
    pthread_mutex_lock(&t->mutex);
    while (!t->done) // CAUSE
        pthread_cond_wait(&t->cond, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
}

static void *resolver(void *arg)
{
    struct request *r = arg;
    r->addr = lookup(r->host);
    set_done(&tsd);
    atomic_fetch_add(&resolved, 1);
    r->port = 80; // CAUSE
    return NULL;
}

static void reset_request(struct request *r, const char *host, int port)
{
    memset(r->host, 0, sizeof r->host);
    strcpy(r->host, host);
    r->addr = 0x7f000001;
    r->port = port; // CAUSE
}

static int connect_to(const struct request *r)
{
    int port = r->port;
    return r->addr == 0x7f000001 && port == 8443 ? 0 : -1;
}

int main(void)
{
    pthread_t t;
    strcpy(req.host, "example.org");
    pthread_create(&t, NULL, resolver, &req);
    wait_done(&tsd);
    unsigned first = req.addr;
    reset_request(&req, "localhost", 8443);
    pthread_join(t, NULL);
    int rc = connect_to(&req);
    printf("%08x, rc %d, resolved %d\n", first, rc, atomic_load(&resolved));
    return rc != 0 || first != lookup("example.org");
}
