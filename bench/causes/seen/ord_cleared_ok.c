/* correct twin of ord_cleared: sender and disconnect hold the session's lock */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

struct conn { int fd; int bytes; };
struct session {
    pthread_mutex_t lock;
    struct conn *volatile conn;
    int dropped;
};

static struct conn connection = { 5, 0 };
static struct session session = { PTHREAD_MUTEX_INITIALIZER, &connection, 0 };
static atomic_int budget = 1000;

static int charge(int n)
{
    return atomic_fetch_sub(&budget, n) >= n;
}

static void send_bytes(struct session *s, int n)
{
    pthread_mutex_lock(&s->lock);
    if (s->conn != NULL) {
        if (charge(n))
            s->conn->bytes += n;
    } else {
        s->dropped += n;
    }
    pthread_mutex_unlock(&s->lock);
}

static void disconnect(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    s->conn = NULL;
    pthread_mutex_unlock(&s->lock);
}

static void *sender(void *arg)
{
    for (int i = 1; i <= 6; i++)
        send_bytes(arg, 10 * i);
    return NULL;
}

static void *timeout(void *arg)
{
    int polls = 0;
    while (atomic_load(&budget) > 900 && ++polls < 8)
        ;
    disconnect(arg);
    return NULL;
}

int main(void)
{
    pthread_t s, t;
    pthread_create(&s, NULL, sender, &session);
    pthread_create(&t, NULL, timeout, &session);
    pthread_join(s, NULL);
    pthread_join(t, NULL);
    return connection.bytes + session.dropped != 210;
}
