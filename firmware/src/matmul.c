/* Blocked matrix multiplication, 32 x 32 doubles with SSE2; an atomic counter deals out the blocks of
 * the product. The entries are small whole numbers, so that the result is exact. Prints a checksum;
 * exit code 1 when it is wrong. */
#include <emmintrin.h>

#include "barrier.h"
#include "console.h"
#include "machine.h"

#ifndef ORDER /* build.py makes larger ones, for measuring */
#define ORDER 32
#define CHECKSUM 16773
#endif
#define BLOCK 8
#define BLOCKS (ORDER / BLOCK)

static struct barrier all_cores;
static double left_matrix[ORDER][ORDER] LINE_ALIGNED;
static double right_matrix[ORDER][ORDER] LINE_ALIGNED;
static double product[ORDER][ORDER] LINE_ALIGNED;
static volatile long next_block LINE_ALIGNED;

static void fill_rows(long core, long cores) {
    for (long row = core; row < ORDER; row += cores)
        for (long column = 0; column < ORDER; column++) {
            left_matrix[row][column] = (double)((row * 3 + column * 5) % 17 - 8);
            right_matrix[row][column] = (double)((row * 7 + column * 2) % 13 - 6);
        }
}

/* Adds left[top.., middle..] * right[middle.., side..] to the block of the product at (top, side). */
static NOINLINE void multiply_block(long top, long middle, long side) {
    for (long row = top; row < top + BLOCK; row++)
        for (long column = side; column < side + BLOCK; column += 2) {
            __m128d sum = _mm_load_pd(&product[row][column]);
            for (long k = middle; k < middle + BLOCK; k++) {
                __m128d pair = _mm_load_pd(&right_matrix[k][column]);
                sum = _mm_add_pd(sum, _mm_mul_pd(_mm_set1_pd(left_matrix[row][k]), pair));
            }
            _mm_store_pd(&product[row][column], sum);
        }
}

static long weigh_product(void) {
    long sum = 0;
    for (long row = 0; row < ORDER; row++)
        for (long column = 0; column < ORDER; column++)
            sum += (long)product[row][column] * (row * ORDER + column + 1);
    return sum;
}

int main(long core, long cores) {
    long block;
    fill_rows(core, cores);
    barrier_wait(&all_cores, cores);
    while ((block = fetch_add(&next_block, 1)) < BLOCKS * BLOCKS)
        for (long middle = 0; middle < ORDER; middle += BLOCK)
            multiply_block(block / BLOCKS * BLOCK, middle, block % BLOCKS * BLOCK);
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    long sum = weigh_product();
    print_field("matmul: checksum ", sum);
    print_string("\n");
    return sum != CHECKSUM;
}
