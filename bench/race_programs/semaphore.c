/* class: semaphore; races on: - */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <semaphore.h>

volatile long value;
sem_t done;

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *first(void *argument) {
    value = 2;
    sem_post(&done);
    return argument;
}

static void *second(void *argument) {
    sem_wait(&done);
    if (value != 2)
        abort();
    return argument;
}

int main(void) {
    sem_init(&done, 0, 0);
    run(first, second);
    printf("%ld\n", value);
    return 0;
}
