/* class: deadlock (a thread waits for itself through another); fails by: deadlock; cause: closing the session holds the
 * session's lock while it joins the event thread, whose last step is to take that lock.
 * Modelled on Transmission's tr_sessionClose and its libevent thread. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

struct session {
    pthread_mutex_t lock;
    pthread_t event_thread;
    sem_t closed;
    atomic_int bytes;
    int torrents, events;
    unsigned settings;
};

static struct session session = { .lock = PTHREAD_MUTEX_INITIALIZER, .torrents = 3 };

static void remove_torrent(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    s->torrents--;
    s->events++;
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->bytes, 10);
}

static void *event_loop(void *arg)
{
    struct session *s = arg;
    for (int i = 0; i < 3; i++)
        remove_torrent(s);
    sem_post(&s->closed);
    pthread_mutex_lock(&s->lock); // CAUSE
    s->events++;
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void *save_settings(void *arg)
{
    struct session *s = arg;
    unsigned sum = (unsigned)atomic_load(&s->bytes);
    for (unsigned i = 0; i < 100; i++)
        sum = sum * 33 + i;
    s->settings = sum;
    return NULL;
}

static unsigned session_close(struct session *s)
{
    pthread_t saver;
    sem_wait(&s->closed);
    pthread_create(&saver, NULL, save_settings, s);
    pthread_join(saver, NULL);
    pthread_mutex_lock(&s->lock); // CAUSE
    pthread_join(s->event_thread, NULL); // CAUSE
    unsigned sum = s->settings + (unsigned)s->torrents;
    pthread_mutex_unlock(&s->lock);
    return sum;
}

int main(void)
{
    sem_init(&session.closed, 0, 0);
    pthread_create(&session.event_thread, NULL, event_loop, &session);
    unsigned sum = session_close(&session);
    printf("settings %08x, %d events\n", sum, session.events);
    return session.torrents != 0 || session.events != 4;
}
