/* class: use after free (double free); fails by: abort; cause: two threads both find the session's old peer set, and both
 * release it before either stores the new one.
 * Modelled on OpenSSL CVE-2010-3864/CVE-2011-3210-like races on shared sessions (SSL_SESSION peer). */
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
    struct x509 *old = s->peer; // CAUSE
    if (old)
        x509_free(old); // CAUSE
    s->peer = x; // CAUSE
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
