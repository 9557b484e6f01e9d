/* class: atomics done right; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

volatile long value;

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    for (int i = 0; i < 20; i++)
        __atomic_fetch_add(&value, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void *second(void *argument) {
    for (int i = 0; i < 20; i++)
        __atomic_fetch_add(&value, 1, __ATOMIC_SEQ_CST);
    return argument;
}

int main(void) {
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
