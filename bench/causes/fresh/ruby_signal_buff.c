/* class: signal handler against thread; fails by: wrong result; cause: the thread takes a signal out of the buffer with a plain read and a plain write of its size, and a handler that runs between the two is forgotten */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#define NSIG_KINDS 2
#define SENDS 6

static struct {
    atomic_int cnt[NSIG_KINDS];
    volatile int size;
} buff;

static atomic_int delivered, vm_stop, vm_ready;
static int trapped[NSIG_KINDS];

static int kind_of(int sig) { return sig == SIGUSR2; }

static void sighandler(int sig)
{
    atomic_fetch_add(&buff.cnt[kind_of(sig)], 1);
    buff.size++;                                  // CAUSE
    atomic_fetch_add(&delivered, 1);
}

static int get_next_signal(void)
{
    int kind = -1;
    int size = buff.size;                         // CAUSE
    if (size == 0)
        return -1;
    for (int i = 0; i < NSIG_KINDS; i++)
        if (atomic_load(&buff.cnt[i]) > 0) {
            atomic_fetch_sub(&buff.cnt[i], 1);
            kind = i;
            break;
        }
    buff.size = size - 1;                         // CAUSE
    return kind;
}

static void *vm_thread(void *arg)
{
    (void)arg;
    atomic_store(&vm_ready, 1);
    for (;;) {
        int last = atomic_load(&vm_stop);
        int kind;
        while ((kind = get_next_signal()) >= 0)
            trapped[kind]++;
        if (last)
            return NULL;
        sched_yield();
    }
}

int main(void)
{
    pthread_t vm;
    struct sigaction sa = { .sa_handler = sighandler, .sa_flags = SA_RESTART };
    sigemptyset(&sa.sa_mask);
    sigaddset(&sa.sa_mask, SIGUSR1);
    sigaddset(&sa.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &sa, NULL);
    sigaction(SIGUSR2, &sa, NULL);

    pthread_create(&vm, NULL, vm_thread, NULL);
    while (!atomic_load(&vm_ready))
        sched_yield();
    for (int i = 0; i < SENDS; i++) {
        pthread_kill(vm, i % 2 ? SIGUSR2 : SIGUSR1);
        while (atomic_load(&delivered) <= i)
            sched_yield();
    }
    atomic_store(&vm_stop, 1);
    pthread_join(vm, NULL);
    printf("trapped %d of %d\n", trapped[0] + trapped[1], SENDS);
    return trapped[0] + trapped[1] != SENDS;
}
