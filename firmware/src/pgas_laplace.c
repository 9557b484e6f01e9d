/* Jacobi sweeps over a grid whose rows are spread over the cores in blocks; the rows at a block's edge come from
 * the neighbours by gets. Whole numbers, so that the sum is the same for any number of cores. Prints it; exit
 * code 1 when it is wrong. */
#include "console.h"
#include "pgas.h"

#define ROWS 48
#define COLUMNS 16
#define SWEEPS 6
#define SUM 1645973L
#define ROW_BYTES (COLUMNS * 8UL)

static unsigned long grids; /* two of them, ROWS / cores + 3 rows each */

static long first_row(long core, long cores) { return core * ROWS / cores; }
static long owner(long row, long cores) {
    long core = row * cores / ROWS;
    while (first_row(core, cores) > row)
        core--;
    while (core + 1 < cores && first_row(core + 1, cores) <= row)
        core++;
    return core;
}

/* Row `row` of grid `which`, where its owner has it: below a row for the neighbour's edge. */
static volatile long *row_at(long row, long which, long cores) {
    long core = owner(row, cores), held = ROWS / cores + 3;
    return (volatile long *)pgas_at(core, grids) + (which * held + row - first_row(core, cores) + 1) * COLUMNS;
}

int main(long me, long cores) {
    pgas_start(me, cores);
    long held = ROWS / cores + 3, low = first_row(me, cores), high = first_row(me + 1, cores);
    grids = pgas_all_alloc(me, 2 * (unsigned long)held * ROW_BYTES);
    volatile long *mine = pgas_at(me, grids);
    for (long row = low; row < high; row++)
        for (long column = 0; column < COLUMNS; column++)
            row_at(row, 0, cores)[column] = row == 0 || column == 0 ? 4096 : 0;
    pgas_barrier();
    for (long sweep = 0; sweep < SWEEPS && low < high; sweep++) {
        long from = sweep & 1;
        volatile long *grid = mine + from * held * COLUMNS, *next = mine + (1 - from) * held * COLUMNS;
        if (low > 0)
            pgas_get_nb(grid, row_at(low - 1, from, cores), ROW_BYTES);
        if (high < ROWS)
            pgas_get_nb(grid + (high - low + 1) * COLUMNS, row_at(high, from, cores), ROW_BYTES);
        pgas_fence();
        for (long row = low; row < high; row++) {
            volatile long *here = grid + (row - low + 1) * COLUMNS, *there = next + (row - low + 1) * COLUMNS;
            for (long c = 0; c < COLUMNS; c++) {
                int edge = row == 0 || row == ROWS - 1 || c == 0 || c == COLUMNS - 1;
                there[c] = edge ? here[c] : (here[c - 1] + here[c + 1] + here[c - COLUMNS] + here[c + COLUMNS]) / 4;
            }
        }
        pgas_barrier();
    }
    for (long sweep = 0; sweep < SWEEPS && low >= high; sweep++)
        pgas_barrier();
    long sum = 0;
    for (long row = low; row < high; row++)
        for (long column = 0; column < COLUMNS; column++)
            sum += row_at(row, SWEEPS & 1, cores)[column] * (column + 1);
    sum = pgas_sum(me, sum);
    if (me != 0)
        return 0;
    print_field("pgas_laplace: sum ", sum);
    print_string("\n");
    return sum != SUM;
}
