/* correct twin of cpython_is_tripped: the handler sets the flag of the signal first and is_tripped after it */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKS = 3 };

static struct {
    atomic_int tripped;
    int calls;
} handlers[NSIG];

static atomic_int is_tripped;
static sem_t wakeup;

static void trip_signal(int sig) {
    atomic_store(&handlers[sig].tripped, 1);
    atomic_store(&is_tripped, 1);
    sem_post(&wakeup); /* ends a blocking call of the main thread */
}

/* only in the main thread */
static int check_signals(void) {
    int called = 0;
    if (!atomic_load(&is_tripped))
        return 0;
    atomic_store(&is_tripped, 0);
    for (int sig = 1; sig < NSIG; sig++) {
        if (sig != SIGUSR1 && sig != SIGUSR2)
            continue;
        if (atomic_exchange(&handlers[sig].tripped, 0)) {
            handlers[sig].calls++;
            called++;
        }
    }
    return called;
}

/* the system may run the handler in any thread */
static void *worker(void *arg) {
    (void)arg;
    raise(SIGUSR1);
    return NULL;
}

static int eval_loop(void) {
    int called = 0;
    for (int i = 0; i < CHECKS; i++) {
        called += check_signals();
    }
    while (sem_wait(&wakeup) != 0)
        ;
    called += check_signals();
    return called;
}

int main(void) {
    pthread_t thread;
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = trip_signal;
    sigemptyset(&sa.sa_mask);
    sem_init(&wakeup, 0, 0);
    if (sigaction(SIGUSR1, &sa, NULL) != 0 || sigaction(SIGUSR2, &sa, NULL) != 0)
        return 2;
    pthread_create(&thread, NULL, worker, NULL);
    int called = eval_loop();
    pthread_join(thread, NULL);
    sem_destroy(&wakeup);
    printf("handler of SIGUSR1 called %d times\n", handlers[SIGUSR1].calls);
    return called == 1 ? 0 : 1;
}
