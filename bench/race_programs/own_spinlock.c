/* class: a spinlock of its own, unlocked by a store; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

volatile long value;
int busy;

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    for (int i = 0; i < 10; i++) {
        while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
            ;
        value = value + 1;
        __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    }
    return argument;
}

static void *second(void *argument) {
    for (int i = 0; i < 10; i++) {
        while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
            ;
        value = value + 1;
        __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    }
    return argument;
}

int main(void) {
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
