/* class: order violation (used before created); fails by: segv; cause: the device is enabled before its handler is registered, so that the event loop calls a null handler */
#include <pthread.h>
#include <stdatomic.h>

struct device {
    atomic_int enabled, pending;
    void (*volatile handler)(struct device *, int);
    int handled, irqs[8];
};

static struct device dev[2];

static void uart_irq(struct device *d, int n) { d->handled += n; d->irqs[n & 7]++; }
static void disk_irq(struct device *d, int n) { d->handled += 2 * n; d->irqs[n & 7]++; }

static void *event_loop(void *arg)
{
    int left = 8;
    for (int polls = 0; left && polls < 40; polls++)
        for (int i = 0; i < 2; i++) {
            struct device *d = &dev[i];
            if (!atomic_load(&d->enabled) || !atomic_load(&d->pending)) // CAUSE
                continue;
            atomic_fetch_sub(&d->pending, 1);
            d->handler(d, left & 3);              // CAUSE
            left--;
        }
    return NULL;
}

static void start(struct device *d, void (*handler)(struct device *, int))
{
    atomic_store(&d->enabled, 1);                 // CAUSE
    for (int i = 0; i < 8; i++)
        d->irqs[i] = 0;
    d->handler = handler;                         // CAUSE
}

static void *generator(void *arg)
{
    for (int i = 0; i < 8; i++)
        atomic_fetch_add(&dev[i % 2].pending, 1);
    return NULL;
}

int main(void)
{
    pthread_t loop, gen;
    pthread_create(&gen, NULL, generator, NULL);
    pthread_create(&loop, NULL, event_loop, NULL);
    start(&dev[0], uart_irq);
    start(&dev[1], disk_irq);
    pthread_join(gen, NULL);
    pthread_join(loop, NULL);
    return dev[0].handled < 0 || dev[1].handled < 0;
}
