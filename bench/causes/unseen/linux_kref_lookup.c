/* class: reference count (raised from zero); fails by: assert; cause: (after Linux, kref_get without unless_zero) the
 * last put counts down to zero and only then takes the table's lock to take the object out, and a lookup in between
 * finds the object and raises its count from zero, so that it uses what the put destroys */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define OBJECTS 4
#define USERS 2
#define ROUNDS 2

struct object {
    int handle;
    atomic_int alive;
    atomic_int refs;
    int pages[4];
};

static struct object slab[OBJECTS];
static struct object *table[OBJECTS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int used[USERS];

static void object_create(int handle)
{
    struct object *o = &slab[handle];
    o->handle = handle;
    for (int i = 0; i < 4; i++)
        o->pages[i] = handle + i;
    atomic_store(&o->refs, 1);
    atomic_store(&o->alive, 1);
    pthread_mutex_lock(&table_lock);
    table[handle] = o;
    pthread_mutex_unlock(&table_lock);
}

static void object_release(struct object *o)
{
    pthread_mutex_lock(&table_lock);
    table[o->handle] = NULL;                      // CAUSE
    pthread_mutex_unlock(&table_lock);
    for (int i = 0; i < 4; i++)
        o->pages[i] = -1;
    assert(atomic_exchange(&o->alive, 0) == 1);
}

static void object_put(struct object *o)
{
    if (atomic_fetch_sub(&o->refs, 1) == 1) {     // CAUSE
        object_release(o);
    }
}

static int object_get(struct object *o)
{
    atomic_fetch_add(&o->refs, 1);                // CAUSE
    return 1;
}

static struct object *object_lookup(int handle)
{
    pthread_mutex_lock(&table_lock);
    struct object *o = table[handle];
    if (o && !object_get(o))
        o = NULL;
    pthread_mutex_unlock(&table_lock);
    return o;
}

static void use_pages(struct object *o)
{
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += o->pages[i];
    assert(atomic_load(&o->alive) && sum == 4 * o->handle + 6);
}

static void *owner(void *arg)
{
    (void)arg;
    for (int i = 0; i < OBJECTS; i++) {
        sched_yield();
        object_put(&slab[i]);
    }
    return NULL;
}

static void *user(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < OBJECTS * ROUNDS; i++) {
        struct object *o = object_lookup(i % OBJECTS);
        if (o) {
            use_pages(o);
            atomic_fetch_add(&used[id], 1);
            object_put(o);
        }
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t o, u[USERS];
    for (int i = 0; i < OBJECTS; i++)
        object_create(i);
    pthread_create(&o, NULL, owner, NULL);
    for (long i = 0; i < USERS; i++)
        pthread_create(&u[i], NULL, user, (void *)i);
    pthread_join(o, NULL);
    for (int i = 0; i < USERS; i++)
        pthread_join(u[i], NULL);
    printf("used %d\n", atomic_load(&used[0]) + atomic_load(&used[1]));
    return 0;
}
