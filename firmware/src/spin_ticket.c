/* A counter behind a ticket lock. Prints the total; exit code 1 when it is wrong. */
#include "barrier.h"
#include "console.h"
#include "locks.h"
#include "machine.h"

#define ROUNDS 8
#define INSIDE 10
#define OUTSIDE 20

static struct barrier all_cores;
static struct ticket_lock counter_lock;
static volatile long guarded_counter LINE_ALIGNED;

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    for (long round = 0; round < ROUNDS; round++) {
        ticket_acquire(&counter_lock);
        long seen = guarded_counter;
        busy_work(INSIDE);
        guarded_counter = seen + 1;
        ticket_release(&counter_lock);
        busy_work(OUTSIDE);
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("spin_ticket: total ", guarded_counter);
    print_string("\n");
    return guarded_counter != ROUNDS * cores;
}
