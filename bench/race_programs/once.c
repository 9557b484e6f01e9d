/* class: once; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

volatile long value;
pthread_once_t control = PTHREAD_ONCE_INIT;

static void make(void) {
    value = 9;
}

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    pthread_once(&control, make);
    if (value != 9)
        abort();
    return argument;
}

static void *second(void *argument) {
    pthread_once(&control, make);
    if (value != 9)
        abort();
    return argument;
}

int main(void) {
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
