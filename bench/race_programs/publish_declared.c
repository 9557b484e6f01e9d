/* class: publication, declared atomic; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>

volatile long value;
_Atomic int ready;

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    value = 5;
    atomic_store_explicit(&ready, 1, memory_order_release);
    return argument;
}

static void *second(void *argument) {
    while (!atomic_load_explicit(&ready, memory_order_acquire))
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
