/* class: double-checked locking; races on: instance, object */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct object { long field; };
struct object object;
struct object *volatile instance;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct object *get(void) {
    struct object *found = instance;
    if (!found) {
        pthread_mutex_lock(&lock);
        found = instance;
        if (!found) {
            object.field = 7;
            found = &object;
            instance = found;
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
