/* Twin of openssl_peer_free: the peer is exchanged under the session's lock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct x509 {
    int serial;
    int allocated;
};

struct session {
    pthread_mutex_t lock;
    struct x509 *volatile peer;
    int hits;
};

static struct x509 pool[8];
static int pool_used;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct session sess = { PTHREAD_MUTEX_INITIALIZER, NULL, 0 };

static struct x509 *x509_new(int serial)
{
    pthread_mutex_lock(&pool_lock);
    struct x509 *x = &pool[pool_used++];
    x->serial = serial;
    x->allocated = 1;
    pthread_mutex_unlock(&pool_lock);
    return x;
}

static void x509_free(struct x509 *x)
{
    pthread_mutex_lock(&pool_lock);
    if (!x->allocated) {
        fprintf(stderr, "double free of certificate %d\n", x->serial);
        abort();
    }
    x->allocated = 0;
    pthread_mutex_unlock(&pool_lock);
}

static void session_set_peer(struct session *s, int serial)
{
    struct x509 *x = x509_new(serial);
    pthread_mutex_lock(&s->lock);
    struct x509 *old = s->peer;
    if (old)
        x509_free(old);
    s->peer = x;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->lock);
    s->hits++;
    pthread_mutex_unlock(&s->lock);
}

static void *handshake(void *arg)
{
    int serial = (int)(long)arg;
    session_set_peer(&sess, serial);
    session_set_peer(&sess, serial + 1);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    sess.peer = x509_new(1);
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, handshake, (void *)(10 * i + 10));
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("peer %d, %d hits\n", sess.peer->serial, sess.hits);
    return sess.hits != 4;
}
