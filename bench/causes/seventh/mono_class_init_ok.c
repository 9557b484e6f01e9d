/* repaired twin of mono_class_init.c */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLASSES = 4, SLOTS = 3, CALLS = 6, THREADS = 3 };

struct object;
typedef long (*method)(struct object *self, long arg);

struct klass {
    const char *name;
    struct klass *parent;
    int inited;
    bool init_pending;
    unsigned n_slots;
    method vtable[SLOTS];
};

struct object {
    struct klass *klass;
    long field;
};

static pthread_mutex_t loader_lock;
static unsigned n_inited;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long calls;

static struct klass classes[CLASSES] = {
    { .name = "Object" },
    { .name = "Stream", .parent = &classes[0] },
    { .name = "FileStream", .parent = &classes[1] },
    { .name = "String", .parent = &classes[0] },
};

static long m_hash(struct object *self, long arg) { return self->field * 31 + arg; }
static long m_equals(struct object *self, long arg) { return self->field == arg; }
static long m_store(struct object *self, long arg) { return self->field = arg; }

static const method defaults[SLOTS] = { m_hash, m_equals, m_store };

static bool class_ready(struct klass *k) {
    return __atomic_load_n(&k->inited, __ATOMIC_ACQUIRE);
}

static void setup_vtable(struct klass *k) {
    for (unsigned i = 0; i < SLOTS; i++)
        k->vtable[i] = k->parent ? k->parent->vtable[i] : defaults[i];
    k->n_slots = SLOTS;
}

static void class_init(struct klass *k) {
    if (class_ready(k))
        return;
    pthread_mutex_lock(&loader_lock);
    if (!class_ready(k) && !k->init_pending) {
        k->init_pending = true;
        if (k->parent)
            class_init(k->parent);
        setup_vtable(k);
        n_inited++;
        __atomic_store_n(&k->inited, 1, __ATOMIC_RELEASE);
        k->init_pending = false;
    }
    pthread_mutex_unlock(&loader_lock);
}

static struct object *object_new(struct klass *k, long field) {
    class_init(k);
    struct object *o = malloc(sizeof *o);
    o->klass = k;
    o->field = field;
    return o;
}

static long object_call(struct object *o, unsigned slot, long arg) {
    return o->klass->vtable[slot](o, arg);
}

static void *managed_thread(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    long sum = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        struct object *o = object_new(&classes[(i * 3 + self) % CLASSES], i);
        for (unsigned s = 0; s < SLOTS; s++)
            sum += object_call(o, s, i + s);
        free(o);
        pthread_mutex_lock(&stat_lock);
        calls += SLOTS;
        pthread_mutex_unlock(&stat_lock);
    }
    return (void *)sum;
}

int main(void) {
    pthread_t t[THREADS];
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&loader_lock, &attr);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, managed_thread, (void *)(uintptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    printf("classes %u calls %lu\n", n_inited, calls);
    return n_inited == CLASSES && calls == THREADS * CALLS * SLOTS ? 0 : 1;
}
