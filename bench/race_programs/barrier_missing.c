/* class: a barrier that is missing; races on: cells */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

volatile long value, cells[2];
pthread_barrier_t both;

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    cells[0] = 1;
    if (cells[1] < 0)
        abort();
    return argument;
}

static void *second(void *argument) {
    cells[1] = 1;
    if (cells[0] < 0)
        abort();
    return argument;
}

int main(void) {
    pthread_barrier_init(&both, NULL, 2);
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
