/* class: lost-update; fails by: abort; cause: two bit fields share a word but are guarded by different locks, so that storing the speed writes back an old copy of the error bits */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct port {
    pthread_mutex_t speed_lock, err_lock;
    atomic_int up;
    struct {
        unsigned speed : 4;
        unsigned errors : 4;
    } st;
};

static struct port port = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, 0, { 1, 0 } };

static void negotiate(struct port *p, unsigned best)
{
    for (unsigned s = 1; s <= best; s++) {
        pthread_mutex_lock(&p->speed_lock);
        p->st.speed = s;                          // CAUSE
        pthread_mutex_unlock(&p->speed_lock);
        atomic_fetch_add(&p->up, 1);
    }
}

static void report_error(struct port *p)
{
    pthread_mutex_lock(&p->err_lock);
    if (p->st.errors < 15)
        p->st.errors++;                           // CAUSE
    pthread_mutex_unlock(&p->err_lock);
}

static void *link_thread(void *arg)
{
    negotiate(arg, 9);
    return NULL;
}

static void *irq_thread(void *arg)
{
    for (int i = 0; i < 7; i++)
        report_error(arg);
    return NULL;
}

int main(void)
{
    pthread_t l, q;
    pthread_create(&l, NULL, link_thread, &port);
    pthread_create(&q, NULL, irq_thread, &port);
    pthread_join(l, NULL);
    pthread_join(q, NULL);
    if (atomic_load(&port.up) != 9 || port.st.speed != 9 || port.st.errors != 7)
        abort();
    return 0;
}
