/* class: double-checked locking with atomic built-ins; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct object { long field; };
struct object object;
struct object *instance;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct object *get(void) {
    struct object *found = __atomic_load_n(&instance, __ATOMIC_ACQUIRE);
    if (!found) {
        pthread_mutex_lock(&lock);
        found = __atomic_load_n(&instance, __ATOMIC_RELAXED);
        if (!found) {
            object.field = 7;
            found = &object;
            __atomic_store_n(&instance, found, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&lock);
    }
    return found;
}

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    for (int i = 0; i < 10; i++)
        if (get()->field != 7)
            abort();
    return argument;
}

static void *second(void *argument) {
    for (int i = 0; i < 10; i++)
        if (get()->field != 7)
            abort();
    return argument;
}

int main(void) {
    run(first, second);
    printf("%ld\n", object.field);
    return 0;
}
