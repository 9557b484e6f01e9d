/* class: atomicity violation (write index and items of a ring); fails by: wrong result; cause: two threads invoke a function on the same loop, both read the same write index before either has stored the next one, and both put their item into the same place of the ring */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RING_SIZE = 16, CALLERS = 2, CALLS = 3 };

typedef void (*invoke_func_t)(int value);

struct invoke_item {
    invoke_func_t func;
    int value;
};

static struct loop {
    struct invoke_item items[RING_SIZE];
    atomic_uint readindex, writeindex;
    atomic_int running;
    int wakeup;
} loop = { .running = 1 };

static int volume, muted;

static void set_volume(int value) { volume += value; }
static void set_mute(int value) { muted += value; }

static void wake_loop(void) {
    uint64_t one = 1;
    if (write(loop.wakeup, &one, sizeof one) != sizeof one)
        exit(2);
}

static void loop_invoke(invoke_func_t func, int value) {
    unsigned idx = atomic_load_explicit(&loop.writeindex, memory_order_relaxed); // CAUSE
    struct invoke_item *item = &loop.items[idx % RING_SIZE];
    item->func = func;
    item->value = value;
    atomic_store_explicit(&loop.writeindex, idx + 1, memory_order_release); // CAUSE
    wake_loop();
}

static void flush_items(void) {
    unsigned rd = atomic_load_explicit(&loop.readindex, memory_order_relaxed);
    unsigned wr = atomic_load_explicit(&loop.writeindex, memory_order_acquire);
    for (int avail = (int)(wr - rd); avail > 0; avail--, rd++)
        loop.items[rd % RING_SIZE].func(loop.items[rd % RING_SIZE].value);
    atomic_store_explicit(&loop.readindex, rd, memory_order_release);
}

static void *data_loop(void *arg) {
    struct pollfd pfd = { .fd = loop.wakeup, .events = POLLIN };
    uint64_t count;
    int running;
    (void)arg;
    do {
        if (poll(&pfd, 1, -1) != 1 || read(loop.wakeup, &count, sizeof count) != sizeof count)
            exit(2);
        running = atomic_load(&loop.running);
        flush_items();
    } while (running);
    return NULL;
}

static void *client(void *arg) {
    invoke_func_t func = *(invoke_func_t *)arg;
    for (int i = 1; i <= CALLS; i++)
        loop_invoke(func, i);
    return NULL;
}

int main(void) {
    pthread_t data_thread, callers[CALLERS];
    invoke_func_t funcs[CALLERS] = { set_volume, set_mute };
    loop.wakeup = eventfd(0, EFD_CLOEXEC);
    if (loop.wakeup < 0)
        return 2;
    pthread_create(&data_thread, NULL, data_loop, NULL);
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, client, &funcs[i]);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    atomic_store(&loop.running, 0);
    wake_loop();
    pthread_join(data_thread, NULL);
    close(loop.wakeup);
    printf("volume %d, mute %d\n", volume, muted);
    return volume == 6 && muted == 6 ? 0 : 1;
}
