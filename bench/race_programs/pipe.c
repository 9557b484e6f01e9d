/* class: message by a pipe; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile long value;
int ends[2];

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    char byte = 1;
    value = 6;
    if (write(ends[1], &byte, 1) != 1)
        abort();
    return argument;
}

static void *second(void *argument) {
    char byte;
    if (read(ends[0], &byte, 1) != 1 || value < 6)
        abort();
    return argument;
}

int main(void) {
    if (pipe(ends))
        abort();
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
