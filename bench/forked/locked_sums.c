/* Two threads that mostly compute, each on numbers of its own, and add to a sum under a lock now and then:
   some 50,000 instructions from the second thread on. */

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 2, SUMS = 12, STEPS = 160, NUMBERS = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum, numbers[THREADS * NUMBERS];

static void *add_up(void *argument) {
    long me = (long)argument, state = me;
    for (int k = 0; k < SUMS; k++) {
        for (int step = 0; step < STEPS; step++) {
            state = state * 31 + step;
            numbers[(state & (NUMBERS - 1)) + NUMBERS * me] += state;
        }
        pthread_mutex_lock(&lock);
        sum += state & 1;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long k = 0; k < THREADS; k++)
        pthread_create(&threads[k], 0, add_up, (void *)k);
    for (int k = 0; k < THREADS; k++)
        pthread_join(threads[k], 0);
    printf("%ld\n", sum);
    return 0;
}
