/* correct twin of dl_cancel: the lock is released on the path of the cancelled transfer, too */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct transfer {
    pthread_mutex_t lock;
    int cancelled, sent;
    char block[16];
};

static struct transfer tr = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_int progress;

static int send_block(struct transfer *t, int n)
{
    pthread_mutex_lock(&t->lock);
    if (t->cancelled) {
        pthread_mutex_unlock(&t->lock);
        return -1;
    }
    memset(t->block, 'a' + n, sizeof t->block);
    t->sent++;
    pthread_mutex_unlock(&t->lock);
    atomic_fetch_add(&progress, 1);
    return 0;
}

static void cancel(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    t->cancelled = 1;
    pthread_mutex_unlock(&t->lock);
}

static int blocks_sent(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    int n = t->sent;
    pthread_mutex_unlock(&t->lock);
    return n;
}

static void *sender(void *arg)
{
    for (int i = 0; i < 6; i++)
        if (send_block(arg, i) < 0)
            break;
    return NULL;
}

static void *user(void *arg)
{
    int before = atomic_load(&progress);
    cancel(arg);
    return (void *)(long)(blocks_sent(arg) < before);
}

int main(void)
{
    pthread_t s, u;
    void *bad;
    pthread_create(&s, NULL, sender, &tr);
    pthread_create(&u, NULL, user, &tr);
    pthread_join(s, NULL);
    pthread_join(u, &bad);
    return bad != NULL || tr.sent != atomic_load(&progress);
}
