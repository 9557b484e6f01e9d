/* N queens by bit masks. A task is the placement of the first two queens; an atomic counter deals the
 * tasks out to the cores. Prints the number of solutions; exit code 1 when it is wrong. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#ifndef QUEENS /* build.py makes larger ones, for measuring */
#define QUEENS 8
#define SOLUTIONS 92
#endif
#define FULL ((1u << QUEENS) - 1)

static struct barrier all_cores;
static volatile long next_task LINE_ALIGNED;
static volatile long solutions_found LINE_ALIGNED;

/* Solutions with `columns` taken and the two diagonals, shifted to the row to fill, under attack. */
static NOINLINE long count_solutions(unsigned columns, unsigned left, unsigned right) {
    if (columns == FULL)
        return 1;
    long found = 0;
    for (unsigned open = FULL & ~(columns | left | right); open; open &= open - 1) {
        unsigned queen = open & -open;
        found += count_solutions(columns | queen, (left | queen) << 1, (right | queen) >> 1);
    }
    return found;
}

static long solve_task(long task) {
    unsigned first = 1u << task / QUEENS, second = 1u << task % QUEENS;
    if (second & (first | first << 1 | first >> 1))
        return 0;
    return count_solutions(first | second, (first << 1 | second) << 1, (first >> 1 | second) >> 1);
}

int main(long core, long cores) {
    long task, mine = 0;
    barrier_wait(&all_cores, cores);
    while ((task = fetch_add(&next_task, 1)) < QUEENS * QUEENS)
        mine += solve_task(task);
    fetch_add(&solutions_found, mine);
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("nqueens: queens ", QUEENS);
    print_field(" solutions ", solutions_found);
    print_string("\n");
    return solutions_found != SOLUTIONS;
}
