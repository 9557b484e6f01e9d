/* pthread_once among 8 threads, constructors and destructors, atexit in reverse order, detached threads, and
 * an end by main's pthread_exit while other threads go on: the last one ends the process. */
#include "guest.h"
#include <semaphore.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static long initialised, constructed;
static sem_t detached_done;

__attribute__((constructor)) static void construct(void) {
    constructed++;
}

__attribute__((destructor)) static void destroy(void) {
    printf("once_exit: destructor\n");
}

static void initialise(void) {
    sched_yield();
    initialised++;
}

static void *use_once(void *argument) {
    CHECK(pthread_once(&once, initialise) == 0 && initialised == 1);
    return argument;
}

static void *run_detached(void *argument) {
    if (argument)
        CHECK(pthread_detach(pthread_self()) == 0);
    CHECK(sem_post(&detached_done) == 0);
    return NULL;
}

static void say_first(void) {
    printf("once_exit: registered first\n");
}

static void say_second(void) {
    printf("once_exit: registered second\n");
}

static void *outlive_main(void *argument) {
    pthread_t main_thread = *(pthread_t *)argument;
    CHECK(join(main_thread) == (void *)5L);
    printf("once_exit: main is gone\n");
    return NULL; /* the last thread: exit code 0, with everything that exit() does */
}

int main(void) {
    static pthread_t self;
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(constructed == 1);
    run_threads(8, use_once);
    CHECK(sem_init(&detached_done, 0, 0) == 0);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    for (long i = 0; i < 4; i++)
        CHECK(pthread_create(&thread, i % 2 ? &attributes : NULL, run_detached, (void *)(i % 2 ^ 1)) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(sem_wait(&detached_done) == 0);
    CHECK(atexit(say_first) == 0 && atexit(say_second) == 0);
    self = pthread_self();
    printf("once_exit: initialised %ld time, detached 4\n", initialised);
    start(outlive_main, &self);
    pthread_exit((void *)5L);
}
