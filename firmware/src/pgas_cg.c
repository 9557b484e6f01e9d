/* Conjugate gradients, in the manner of NAS CG: A x = b for a sparse matrix whose rows are spread over the cores.
 * The vector that is multiplied is got whole from all cores in each step. Sums are made of the same parts in the
 * same order for any number of cores. Prints the bits of the last residual; exit code 1 when they are wrong. */
#include "console.h"
#include "pgas.h"

#define PARTS 64 /* of every vector; part p is core p * cores / PARTS's */
#define PART_ROWS 1
#define ROWS (PARTS * PART_ROWS)
#define STEPS 5
#define RESIDUAL 0x3f8a8aa355590136UL

static unsigned long direction, sums; /* in every segment: p of CG, and parts of a dot product */

static long part_owner(long part, long cores) { return part * cores / PARTS; }

/* Row `row` of A: 6 on the diagonal, -1 beside it and at a distance of 7. */
static double times_row(const double *x, long row) {
    double sum = 6 * x[row];
    if (row >= 1) sum -= x[row - 1];
    if (row + 1 < ROWS) sum -= x[row + 1];
    if (row >= 7) sum -= x[row - 7];
    if (row + 7 < ROWS) sum -= x[row + 7];
    return sum;
}

static double all_parts(long cores) {
    double sum = 0;
    for (long part = 0; part < PARTS; part++)
        sum += ((volatile double *)pgas_at(part_owner(part, cores), sums))[part];
    pgas_barrier();
    return sum;
}

static double dot(long me, long cores, const double *a, const double *b) {
    for (long part = 0; part < PARTS; part++) {
        double sum = 0;
        if (part_owner(part, cores) != me)
            continue;
        for (long i = 0; i < PART_ROWS; i++)
            sum += a[part * PART_ROWS + i] * b[part * PART_ROWS + i];
        ((volatile double *)pgas_at(me, sums))[part] = sum;
    }
    pgas_barrier();
    return all_parts(cores);
}

int main(long me, long cores) {
    static double x[MACHINE_MAX_CORES][4][ROWS] LINE_ALIGNED; /* r, q, x and all of p */
    pgas_start(me, cores);
    direction = pgas_all_alloc(me, ROWS * 8);
    sums = pgas_all_alloc(me, PARTS * 8);
    double *r = x[me][0], *q = x[me][1], *solution = x[me][2], *p = x[me][3];
    volatile double *mine = pgas_at(me, direction);
    for (long row = 0; row < ROWS; row++)
        if (part_owner(row / PART_ROWS, cores) == me)
            mine[row] = r[row] = 1 + (double)(row % 5);
    double rho = dot(me, cores, r, r);
    for (long step = 0; step < STEPS; step++) {
        for (long part = 0; part < PARTS; part++) {
            long at = part * PART_ROWS;
            pgas_get_nb(p + at, (double *)pgas_at(part_owner(part, cores), direction) + at, PART_ROWS * 8);
        }
        pgas_barrier();
        for (long row = 0; row < ROWS; row++)
            if (part_owner(row / PART_ROWS, cores) == me)
                q[row] = times_row(p, row);
        double alpha = rho / dot(me, cores, p, q);
        for (long row = 0; row < ROWS; row++)
            if (part_owner(row / PART_ROWS, cores) == me) {
                solution[row] += alpha * p[row];
                r[row] -= alpha * q[row];
            }
        double before = rho;
        rho = dot(me, cores, r, r);
        for (long row = 0; row < ROWS; row++)
            if (part_owner(row / PART_ROWS, cores) == me)
                mine[row] = r[row] + rho / before * p[row];
        pgas_barrier();
    }
    if (me != 0)
        return 0;
    union { double value; unsigned long bits; } residual = {.value = rho};
    print_string("pgas_cg: residual ");
    print_hex(residual.bits);
    print_string("\n");
    return residual.bits != RESIDUAL;
}
