/* Twin of sqlite_lock_order: both paths lock the database first. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct shared_cache {
    pthread_mutex_t mutex;
    int pages, blocked;
};

struct db {
    pthread_mutex_t mutex;
    struct shared_cache *bt;
    int steps, notified;
};

static struct shared_cache shared = { PTHREAD_MUTEX_INITIALIZER, 0, 0 };
static struct db db = { PTHREAD_MUTEX_INITIALIZER, &shared, 0, 0 };
static atomic_int memory_used;

static void btree_begin(struct db *d)
{
    pthread_mutex_lock(&d->bt->mutex);
    d->bt->pages++;
    d->bt->blocked = 1;
    pthread_mutex_unlock(&d->bt->mutex);
}

static void step(struct db *d)
{
    pthread_mutex_lock(&d->mutex);
    d->steps++;
    atomic_fetch_add(&memory_used, 64);
    btree_begin(d);
    pthread_mutex_unlock(&d->mutex);
}

static void notify_db(struct db *d)
{
    d->notified++;
}

static void connection_unlocked(struct db *d)
{
    pthread_mutex_lock(&d->mutex);
    pthread_mutex_lock(&d->bt->mutex);
    d->bt->blocked = 0;
    notify_db(d);
    pthread_mutex_unlock(&d->bt->mutex);
    pthread_mutex_unlock(&d->mutex);
}

static void *stepper(void *arg)
{
    for (int i = 0; i < 2; i++)
        step(arg);
    return NULL;
}

static void *unlocker(void *arg)
{
    for (int i = 0; i < 2; i++)
        connection_unlocked(arg);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, stepper, &db);
    pthread_create(&b, NULL, unlocker, &db);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d steps, %d notified, %d used\n", db.steps, db.notified, atomic_load(&memory_used));
    return db.steps != 2 || db.notified != 2 || shared.pages != 2;
}
