/* correct twin of dmeventd_registry_lock: a monitor thread takes the global mutex too */
#include <pthread.h>
#include <stdio.h>

#define DEVICES 3
#define EXTRA 3

struct thread_status {
    struct thread_status *next;
    pthread_mutex_t mutex;
    int minor;
    int events;
    int status;
};

static pthread_mutex_t global_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct thread_status *registry;
static struct thread_status devices[DEVICES + EXTRA];

static void link_thread(struct thread_status *t)
{
    t->next = registry;
    registry = t;
}

static void unlink_thread(struct thread_status *t)
{
    struct thread_status **p = &registry;
    while (*p && *p != t)
        p = &(*p)->next;
    if (*p)
        *p = t->next;
}

static void register_device(struct thread_status *t, int minor)
{
    pthread_mutex_init(&t->mutex, NULL);
    t->minor = minor;
    t->status = 1;
    pthread_mutex_lock(&global_mutex);
    link_thread(t);
    pthread_mutex_unlock(&global_mutex);
}

static void finish_monitor(struct thread_status *t)
{
    pthread_mutex_lock(&global_mutex);
    t->status = 0;
    unlink_thread(t);
    pthread_mutex_unlock(&global_mutex);
}

static void *monitor(void *arg)
{
    struct thread_status *t = arg;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&t->mutex);
        t->events++;
        pthread_mutex_unlock(&t->mutex);
    }
    finish_monitor(t);
    return NULL;
}

static int count_registered(void)
{
    int n = 0;
    for (struct thread_status *t = registry; t && n < 100; t = t->next)
        n++;
    return n;
}

int main(void)
{
    pthread_t t[DEVICES];
    int events = 0;
    for (int i = 0; i < DEVICES; i++)
        register_device(&devices[i], i);
    for (int i = 0; i < DEVICES; i++)
        pthread_create(&t[i], NULL, monitor, &devices[i]);
    for (int i = 0; i < EXTRA; i++)
        register_device(&devices[DEVICES + i], DEVICES + i);
    for (int i = 0; i < DEVICES; i++) {
        pthread_join(t[i], NULL);
        events += devices[i].events;
    }
    int n = count_registered();
    printf("%d registered, %d events\n", n, events);
    return n != EXTRA || events != 3 * DEVICES;
}
