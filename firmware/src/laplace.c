/* 2-D Laplace equation by Jacobi's method: each core does its rows with SSE2 doubles, a barrier ends
 * each sweep. Core 0 adds the result up with x87 long doubles, in a fixed order. Prints the bits of the
 * sum; exit code 1 when it is wrong. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#ifndef SIDE /* build.py makes larger ones, for measuring */
#define SIDE 18 /* with the border */
#define SWEEPS 8
#define SUM_BITS 0x40a22a3f4e000000UL
#endif

static struct barrier all_cores;
static double grids[2][SIDE][SIDE] LINE_ALIGNED;

static void set_border(double (*grid)[SIDE]) {
    for (long i = 0; i < SIDE; i++) {
        grid[0][i] = 100.0;
        grid[SIDE - 1][i] = (double)i;
        grid[i][0] = 50.0;
        grid[i][SIDE - 1] = -25.0;
    }
}

static NOINLINE void sweep_rows(const double (*from)[SIDE], double (*to)[SIDE], long first, long last) {
    for (long row = first; row < last; row++)
        for (long column = 1; column < SIDE - 1; column++)
            to[row][column] = 0.25 * (from[row - 1][column] + from[row + 1][column] +
                                      from[row][column - 1] + from[row][column + 1]);
}

static NOINLINE double add_up(const double (*grid)[SIDE]) {
    volatile long double sum = 0.0L; /* volatile: every step is a 10-byte load and store */
    for (long row = 1; row < SIDE - 1; row++)
        for (long column = 1; column < SIDE - 1; column++)
            sum += grid[row][column];
    return (double)sum;
}

int main(long core, long cores) {
    long rows = SIDE - 2;
    long first = 1 + rows * core / cores, last = 1 + rows * (core + 1) / cores;
    if (core == 0) {
        set_border(grids[0]);
        set_border(grids[1]);
    }
    barrier_wait(&all_cores, cores);
    for (long sweep = 0; sweep < SWEEPS; sweep++) {
        sweep_rows(grids[sweep & 1], grids[~sweep & 1], first, last);
        barrier_wait(&all_cores, cores);
    }
    if (core != 0)
        return 0;
    union {
        double value;
        unsigned long bits;
    } sum = {add_up(grids[SWEEPS & 1])};
    print_string("laplace: sum ");
    print_hex(sum.bits);
    print_string("\n");
    return sum.bits != SUM_BITS;
}
