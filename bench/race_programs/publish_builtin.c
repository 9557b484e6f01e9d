/* class: publication with atomic built-ins; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

volatile long value;
int ready;

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    value = 5;
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    return argument;
}

static void *second(void *argument) {
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        ;
    if (value != 5)
        abort();
    return argument;
}

int main(void) {
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
