/* A counter behind an MCS queue lock. Prints the total; exit code 1 when it is wrong. */
#include "barrier.h"
#include "console.h"
#include "locks.h"
#include "machine.h"

#define ROUNDS 8
#define INSIDE 10
#define OUTSIDE 20

static struct barrier all_cores;
static struct mcs_lock counter_lock;
static struct mcs_node queue_nodes[MACHINE_MAX_CORES];
static volatile long guarded_counter LINE_ALIGNED;

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    for (long round = 0; round < ROUNDS; round++) {
        mcs_acquire(&counter_lock, &queue_nodes[core]);
        long seen = guarded_counter;
        busy_work(INSIDE);
        guarded_counter = seen + 1;
        mcs_release(&counter_lock, &queue_nodes[core]);
        busy_work(OUTSIDE);
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("spin_mcs: total ", guarded_counter);
    print_string("\n");
    return guarded_counter != ROUNDS * cores;
}
