/* Matrix chain multiplication by dynamic programming (mcop of the UPC test suite): the cost of every part of the
 * chain is in the segment of one core, the parts of one length are worked out side by side. Prints the least
 * cost; exit code 1 when it is wrong. */
#include "console.h"
#include "hash.h"
#include "pgas.h"

#define MATRICES 20
#define COST 178462L

static unsigned long costs; /* part (i, j): number i * MATRICES + j, on core number % cores */

static volatile long *cost_of(long i, long j, long cores) {
    long number = i * MATRICES + j;
    return (volatile long *)pgas_at(number % cores, costs) + number / cores;
}

static long order_of(long i) { return 10 + (long)(hash_mix(7, (unsigned long)i) % 40); }

static long least_cost(long i, long j, long cores) {
    long least = -1;
    for (long k = i; k < j; k++) {
        long left = pgas_read(cost_of(i, k, cores));
        long right = (k & 3) ? pgas_read(cost_of(k + 1, j, cores)) : pgas_get_word(cost_of(k + 1, j, cores));
        long cost = left + right + order_of(i) * order_of(k + 1) * order_of(j + 1);
        if (least < 0 || cost < least)
            least = cost;
    }
    return least;
}

int main(long me, long cores) {
    pgas_start(me, cores);
    costs = pgas_all_alloc(me, (MATRICES * MATRICES / (unsigned long)cores + 1) * 8);
    for (long length = 2; length <= MATRICES; length++) {
        for (long i = me; i + length <= MATRICES; i += cores) {
            volatile long *place = cost_of(i, i + length - 1, cores);
            long cost = least_cost(i, i + length - 1, cores);
            if (i & 1)
                pgas_put_word(place, cost);
            else
                pgas_write(place, cost);
        }
        pgas_barrier();
    }
    long cost = pgas_read(cost_of(0, MATRICES - 1, cores));
    pgas_barrier();
    if (me != 0)
        return 0;
    print_field("pgas_mcop: cost ", cost);
    print_string("\n");
    return cost != COST;
}
