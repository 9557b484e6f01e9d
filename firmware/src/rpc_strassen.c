/* Strassen's matrix product, its seven products as remote procedure calls. Matrices lie in memory; a request says
 * which product of the tree it is about. Whoever has the request owns that product's matrices until the result is
 * back. Prints a checksum, the same for any number of cores; exit code 1 when the product is wrong. */
#include "console.h"
#include "synthetic.h"

#define ORDER 16
#define LEAF 4     /* multiplied as taught in school */
#define PRODUCTS 57 /* 1 + 7 + 49 */
#define WORK 50
#define CHECKSUM (-10638)

enum { PRODUCT = 1 };

struct product {
    int a[ORDER * ORDER], b[ORDER * ORDER], c[ORDER * ORDER];
    struct at_future part[7];
} LINE_ALIGNED;

static struct product products[PRODUCTS];

/* Which quarters (11, 12, 21, 22) of a and of b are added to make each of the seven products' factors: +1, 0, -1. */
static const signed char left[7][4] = {{1, 0, 0, 1}, {0, 0, 1, 1}, {1, 0, 0, 0}, {0, 0, 0, 1},
                                       {1, 1, 0, 0}, {-1, 0, 1, 0}, {0, 1, 0, -1}};
static const signed char right[7][4] = {{1, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, -1}, {-1, 0, 1, 0},
                                        {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1}};
/* Which products are added to make each quarter of c. */
static const signed char sums[4][7] = {
    {1, 0, 0, 1, -1, 0, 1}, {0, 0, 1, 0, 1, 0, 0}, {0, 1, 0, 1, 0, 0, 0}, {1, -1, 1, 0, 0, 1, 0}};

/* to = the sum of from's quarters, each of half x half. */
static void add_quarters(int *to, const int *from, const signed char *signs, int half) {
    for (int row = 0; row < half; row++)
        for (int column = 0; column < half; column++) {
            int sum = 0;
            for (int k = 0; k < 4; k++)
                if (signs[k])
                    sum += signs[k] * from[(row + k / 2 * half) * 2 * half + column + k % 2 * half];
            to[row * half + column] = sum;
        }
}

static void multiply(int *c, const int *a, const int *b, int order) {
    for (int row = 0; row < order; row++)
        for (int column = 0; column < order; column++) {
            int sum = 0;
            for (int k = 0; k < order; k++)
                sum += a[row * order + k] * b[k * order + column];
            c[row * order + column] = sum;
        }
}

static void put_together(struct product *whole, const struct product *parts, int half) {
    for (int quarter = 0; quarter < 4; quarter++)
        for (int at = 0; at < half * half; at++) {
            int sum = 0;
            for (int k = 0; k < 7; k++)
                sum += sums[quarter][k] * parts[k].c[at];
            whole->c[(at / half + quarter / 2 * half) * 2 * half + at % half + quarter % 2 * half] = sum;
        }
}

/* in: number of the product, its order, turns. Its parts have the numbers 7n + 1 to 7n + 7. */
static void product(const unsigned long *in, unsigned long *out) {
    struct product *whole = &products[in[0]], *parts = &products[7 * in[0] + 1];
    int order = (int)in[1], half = order / 2;
    (void)out;
    compute((long)in[2]);
    if (order <= LEAF) {
        multiply(whole->c, whole->a, whole->b, order);
        return;
    }
    for (unsigned long k = 0; k < 7; k++) {
        unsigned long part[] = {7 * in[0] + 1 + k, (unsigned long)half, in[2]};
        add_quarters(parts[k].a, whole->a, left[k], half);
        add_quarters(parts[k].b, whole->b, right[k], half);
        at_spawn(&whole->part[k], place_of(part[0]), PRODUCT, 3, part);
    }
    for (int k = 0; k < 7; k++)
        at_wait(&whole->part[k]);
    put_together(whole, parts, half);
}

static const struct at_entry entries[] = {{product, 0, 0}};

static int start(void) {
    static int expected[ORDER * ORDER];
    struct product *whole = &products[0];
    unsigned long in[] = {0, ORDER, (unsigned long)read_number(WORK)}, out[AT_WORDS];
    long rounds = read_number(1), checksum = 0, wrong = 0;
    for (int k = 0; k < ORDER * ORDER; k++) {
        whole->a[k] = (int)(hash_mix(1, (unsigned long)k) % 19) - 9;
        whole->b[k] = (int)(hash_mix(2, (unsigned long)k) % 19) - 9;
    }
    multiply(expected, whole->a, whole->b, ORDER);
    for (long k = 0; k < rounds; k++)
        at_call(place_of(0), PRODUCT, 3, in, out);
    for (int k = 0; k < ORDER * ORDER; k++) {
        wrong += whole->c[k] != expected[k];
        checksum += (k + 1) * (long)whole->c[k] % 1009;
    }
    print_field("rpc_strassen: order ", ORDER);
    print_field(" wrong ", wrong);
    print_field(" checksum ", checksum);
    print_string("\n");
    return wrong || checksum != CHECKSUM;
}

int main(long core, long cores) { return at_run(core, cores, entries, 1, start); }
