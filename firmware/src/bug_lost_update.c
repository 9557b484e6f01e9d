/* A real bug: `hits` is incremented by load, compute, store, without a lock. An increment of another
 * core that falls between the load and the store is lost. Prints what was expected and what was found;
 * exit code 0 when they are equal, 1 when updates were lost. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define ROUNDS 200
#define WINDOW 20

static struct barrier all_cores;
static volatile long hits LINE_ALIGNED;

static NOINLINE long next_value(long seen) {
    busy_work(WINDOW);
    return seen + 1;
}

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    for (long round = 0; round < ROUNDS; round++) {
        long seen = hits;
        hits = next_value(seen);
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    long expected = ROUNDS * cores;
    print_field("bug_lost_update: expected ", expected);
    print_field(" found ", hits);
    print_string("\n");
    return hits != expected;
}
