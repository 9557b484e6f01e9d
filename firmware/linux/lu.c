/* LU decomposition of a dense matrix in blocks, without pivots: the diagonal block, then its row and column, then all
 * that is left; barriers between. Blocks are dealt out in two dimensions. Compared, to the last bit, with the plain
 * algorithm. Arguments: threads, order of the matrix. */
#include "kernels.h"

#define BLOCK 8

static long order, blocks, thread_rows, thread_columns;
static double *matrix, *plain;

/* A block's rows lie one behind the other. */
static double *block_at(long row, long column) {
    return matrix + (row * blocks + column) * BLOCK * BLOCK;
}

static long owner(long row, long column) {
    return row % thread_rows * thread_columns + column % thread_columns;
}

static void factor(double *a) {
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++) {
            a[i * BLOCK + k] /= a[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                a[i * BLOCK + j] -= a[i * BLOCK + k] * a[k * BLOCK + j];
        }
}

/* a := a / the upper part of `diagonal`: a block below the diagonal one. */
static void divide_by_upper(double *a, const double *diagonal) {
    for (int k = 0; k < BLOCK; k++)
        for (int i = 0; i < BLOCK; i++) {
            a[i * BLOCK + k] /= diagonal[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                a[i * BLOCK + j] -= a[i * BLOCK + k] * diagonal[k * BLOCK + j];
        }
}

/* a := the lower part of `diagonal`, its own diagonal 1, divided into a: a block to the right. */
static void divide_by_lower(double *a, const double *diagonal) {
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++)
            for (int j = 0; j < BLOCK; j++)
                a[i * BLOCK + j] -= diagonal[i * BLOCK + k] * a[k * BLOCK + j];
}

static void subtract_product(double *a, const double *left, const double *above) {
    for (int k = 0; k < BLOCK; k++)
        for (int i = 0; i < BLOCK; i++)
            for (int j = 0; j < BLOCK; j++)
                a[i * BLOCK + j] -= left[i * BLOCK + k] * above[k * BLOCK + j];
}

static void *decompose(void *argument) {
    long me = (long)argument;
    for (long k = 0; k < blocks; k++) {
        if (owner(k, k) == me)
            factor(block_at(k, k));
        wait_for_all();
        for (long i = k + 1; i < blocks; i++) {
            if (owner(i, k) == me)
                divide_by_upper(block_at(i, k), block_at(k, k));
            if (owner(k, i) == me)
                divide_by_lower(block_at(k, i), block_at(k, k));
        }
        wait_for_all();
        for (long i = k + 1; i < blocks; i++)
            for (long j = k + 1; j < blocks; j++)
                if (owner(i, j) == me)
                    subtract_product(block_at(i, j), block_at(i, k), block_at(k, j));
        wait_for_all();
    }
    return argument;
}

static void decompose_plainly(void) {
    for (long k = 0; k < order; k++)
        for (long i = k + 1; i < order; i++) {
            plain[i * order + k] /= plain[k * order + k];
            for (long j = k + 1; j < order; j++)
                plain[i * order + j] -= plain[i * order + k] * plain[k * order + j];
        }
}

int main(int count, char **arguments) {
    order = read_arguments(count, arguments, 32, BLOCK, 512, BLOCK);
    blocks = order / BLOCK;
    thread_rows = threads % 2 ? 1 : 2;
    thread_columns = threads / thread_rows;
    CHECK((matrix = calloc(order * order, sizeof *matrix)) != NULL);
    CHECK((plain = calloc(order * order, sizeof *plain)) != NULL);
    unsigned long state = 2;
    for (long i = 0; i < order; i++)
        for (long j = 0; j < order; j++) {
            double value = next_unit(&state) + (i == j ? order : 0);
            plain[i * order + j] = value;
            block_at(i / BLOCK, j / BLOCK)[i % BLOCK * BLOCK + j % BLOCK] = value;
        }
    run_threads(threads, decompose);
    decompose_plainly();
    for (long i = 0; i < order; i++)
        for (long j = 0; j < order; j++)
            CHECK(plain[i * order + j] == block_at(i / BLOCK, j / BLOCK)[i % BLOCK * BLOCK + j % BLOCK]);
    printf("lu: order %ld sum %016lx\n", order, mix_doubles(FIRST_SUM, plain, order * order));
    return 0;
}
