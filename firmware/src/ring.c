/* One ring buffer for each pair of cores: the even core produces, the odd one consumes, `head` and
 * `tail` each have one writer, no atomics. A last core without a partner plays both roles in turn.
 * Prints pairs, items and whether each came in order; exit code 1 when not. */
#include "barrier.h"
#include "console.h"
#include "hash.h"
#include "machine.h"

#ifndef ITEMS /* build.py makes larger ones, for measuring */
#define ITEMS 96
#endif
#define SLOTS 16

struct ring {
    volatile long tail LINE_ALIGNED; /* items put in; written by the producer */
    volatile long head LINE_ALIGNED; /* items taken out; written by the consumer */
    volatile unsigned long slots[SLOTS] LINE_ALIGNED;
};

static struct barrier all_cores;
static struct ring rings[MACHINE_MAX_CORES / 2];
static volatile long items_in_order LINE_ALIGNED;

static unsigned long item_value(long pair, long item) {
    return hash_mix((unsigned long)pair, (unsigned long)item);
}

static int ring_full(const struct ring *ring) { return ring->tail - ring->head == SLOTS; }

static int ring_empty(const struct ring *ring) { return ring->tail == ring->head; }

static NOINLINE void ring_put(struct ring *ring, unsigned long value) {
    ring->slots[ring->tail % SLOTS] = value;
    compiler_fence();
    ring->tail = ring->tail + 1;
}

static NOINLINE unsigned long ring_take(struct ring *ring) {
    unsigned long value = ring->slots[ring->head % SLOTS];
    compiler_fence();
    ring->head = ring->head + 1;
    return value;
}

static void produce(struct ring *ring, long pair) {
    for (long item = 0; item < ITEMS; item++) {
        while (ring_full(ring))
            cpu_pause();
        ring_put(ring, item_value(pair, item));
    }
}

static long consume(struct ring *ring, long pair) {
    long right = 0;
    for (long item = 0; item < ITEMS; item++) {
        while (ring_empty(ring))
            cpu_pause();
        right += ring_take(ring) == item_value(pair, item);
    }
    return right;
}

static long produce_and_consume(struct ring *ring, long pair) {
    long right = 0, put = 0;
    for (long taken = 0; taken < ITEMS; taken++) {
        while (put < ITEMS && !ring_full(ring))
            ring_put(ring, item_value(pair, put++));
        right += ring_take(ring) == item_value(pair, taken);
    }
    return right;
}

int main(long core, long cores) {
    long pair = core / 2, pairs = (cores + 1) / 2;
    struct ring *ring = &rings[pair];
    barrier_wait(&all_cores, cores);
    if (core % 2 == 1)
        fetch_add(&items_in_order, consume(ring, pair));
    else if (core + 1 < cores)
        produce(ring, pair);
    else
        fetch_add(&items_in_order, produce_and_consume(ring, pair));
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("ring: pairs ", pairs);
    print_field(" items ", pairs * ITEMS);
    print_field(" in order ", items_in_order);
    print_string("\n");
    return items_in_order != pairs * ITEMS;
}
