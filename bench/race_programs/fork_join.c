/* class: fork and join; races on: - */
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
    value = value + 1;
    return argument;
}

static void *second(void *argument) {
    (void)pthread_self();
    return argument;
}

int main(void) {
    value = 1;
    run(first, second);
    value = value + 1;
    printf("%ld\n", value);
    return 0;
}
