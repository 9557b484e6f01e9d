/* class: tear-down against callbacks; fails by: SIGSEGV; cause: (after GLib's GDBus signal subscriptions) the dispatcher
 * copies a subscription's callback and user data under the lock and calls it after the lock, and a client that
 * unsubscribes in between releases its user data, which the late callback then uses */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define CLIENTS 3
#define SIGNALS 3

struct stats { int received, sum; };
struct client { struct stats *stats; struct client *next_free; };

struct subscription {
    void (*callback)(struct client *, int);
    struct client *user_data;
    int refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct subscription subs[CLIENTS];
static struct stats totals[CLIENTS];
static struct client slab[CLIENTS];
static struct client *free_clients;

static void on_signal(struct client *c, int value)
{
    struct stats *s = c->stats;                   // CAUSE
    s->received++;
    s->sum += value;
}

static struct client *client_new(struct stats *stats)
{
    struct client *c = free_clients;
    free_clients = c->next_free;
    c->stats = stats;
    return c;
}

static void client_free(struct client *c)
{
    c->stats = NULL;                              // CAUSE
    c->next_free = free_clients;
    free_clients = c;
}

static void sub_unref(struct subscription *s)
{
    pthread_mutex_lock(&lock);
    if (--s->refs == 0) {
        client_free(s->user_data);
        s->user_data = NULL;
    }
    pthread_mutex_unlock(&lock);
}

static void emit(int value)
{
    for (int i = 0; i < CLIENTS; i++) {
        void (*callback)(struct client *, int) = NULL;
        struct client *user_data = NULL;
        pthread_mutex_lock(&lock);
        if (subs[i].callback) {
            callback = subs[i].callback;
            user_data = subs[i].user_data;        // CAUSE
        }
        pthread_mutex_unlock(&lock);
        if (callback) {
            callback(user_data, value);
        }
    }
}

static void subscribe(int id)
{
    pthread_mutex_lock(&lock);
    subs[id].user_data = client_new(&totals[id]);
    subs[id].refs = 1;
    subs[id].callback = on_signal;
    pthread_mutex_unlock(&lock);
}

static void unsubscribe(int id)
{
    pthread_mutex_lock(&lock);
    subs[id].callback = NULL;
    pthread_mutex_unlock(&lock);
    sub_unref(&subs[id]);
}

static void *dispatcher(void *arg)
{
    (void)arg;
    for (int i = 1; i <= SIGNALS; i++)
        emit(i);
    return NULL;
}

static void *clients(void *arg)
{
    (void)arg;
    for (int i = 0; i < CLIENTS; i++) {
        sched_yield();
        unsubscribe(i);
    }
    return NULL;
}

int main(void)
{
    pthread_t d, c;
    int received = 0;
    for (int i = 0; i < CLIENTS; i++) {
        slab[i].next_free = free_clients;
        free_clients = &slab[i];
    }
    for (int i = 0; i < CLIENTS; i++)
        subscribe(i);
    pthread_create(&d, NULL, dispatcher, NULL);
    pthread_create(&c, NULL, clients, NULL);
    pthread_join(d, NULL);
    pthread_join(c, NULL);
    for (int i = 0; i < CLIENTS; i++)
        received += totals[i].received;
    printf("%d signals received\n", received);
    return received > CLIENTS * SIGNALS;
}
