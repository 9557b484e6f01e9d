/* Fourier transform of SIZE * SIZE points in six steps (Bailey): transpose, transform the rows, multiply by roots of
 * unity, transpose, transform the rows, transpose. Each thread has some rows; a transpose reads all others', so that
 * there is a barrier before each but the first. Compared with a recursive transform. Arguments: threads, SIZE (a power
 * of two). */
#include "kernels.h"

struct complex {
    double re, im;
};

static long side, points;
static struct complex *given, *result, *other, *roots;

static struct complex times(struct complex a, struct complex b) {
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* roots[k] = exp(-2 pi i k / points), by halving angles: square roots are exact to the last bit everywhere. */
static void find_roots(void) {
    struct complex base[40] = {{0}};
    int top = __builtin_ctzl(points);
    base[top - 1] = (struct complex){-1, 0};
    base[top - 2] = (struct complex){0, -1};
    for (int bit = top - 3; bit >= 0; bit--) {
        double cosine = root((1 + base[bit + 1].re) / 2);
        base[bit] = (struct complex){cosine, base[bit + 1].im / (2 * cosine)};
    }
    roots[0] = (struct complex){1, 0};
    for (int bit = 0; bit < top; bit++)
        for (long k = 0; k < 1l << bit; k++)
            roots[(1l << bit) + k] = times(base[bit], roots[k]);
}

/* In place, by radix 2: first the order of reversed bits, then butterflies of growing length. */
static void transform_row(struct complex *row) {
    for (long i = 0, reversed = 0; i < side; i++) {
        if (i < reversed) {
            struct complex kept = row[i];
            row[i] = row[reversed];
            row[reversed] = kept;
        }
        long bit = side >> 1;
        for (; bit && reversed & bit; bit >>= 1)
            reversed ^= bit;
        reversed |= bit;
    }
    for (long length = 2; length <= side; length *= 2)
        for (long start = 0; start < side; start += length)
            for (long k = 0; k < length / 2; k++) {
                struct complex *low = &row[start + k], *high = low + length / 2;
                struct complex turned = times(*high, roots[k * (points / length)]);
                *high = (struct complex){low->re - turned.re, low->im - turned.im};
                *low = (struct complex){low->re + turned.re, low->im + turned.im};
            }
}

static void transpose(const struct complex *from, struct complex *to, long first, long end) {
    for (long row = first; row < end; row++)
        for (long column = 0; column < side; column++)
            to[row * side + column] = from[column * side + row];
}

static void *transform(void *argument) {
    long first = share((long)argument, side), end = share((long)argument + 1, side);
    transpose(given, other, first, end);
    for (long row = first; row < end; row++) {
        transform_row(&other[row * side]);
        for (long column = 0; column < side; column++)
            other[row * side + column] = times(other[row * side + column], roots[row * column]);
    }
    wait_for_all();
    transpose(other, result, first, end);
    for (long row = first; row < end; row++)
        transform_row(&result[row * side]);
    wait_for_all();
    transpose(result, other, first, end);
    return argument;
}

/* to[0] to to[n - 1]: the transform of every `stride`-th of `from`, by halves. */
static void transform_halves(const struct complex *from, struct complex *to, long n, long stride) {
    if (n == 1) {
        to[0] = from[0];
        return;
    }
    transform_halves(from, to, n / 2, 2 * stride);
    transform_halves(from + stride, to + n / 2, n / 2, 2 * stride);
    for (long k = 0; k < n / 2; k++) {
        struct complex even = to[k], odd = times(to[k + n / 2], roots[k * stride]);
        to[k] = (struct complex){even.re + odd.re, even.im + odd.im};
        to[k + n / 2] = (struct complex){even.re - odd.re, even.im - odd.im};
    }
}

int main(int count, char **arguments) {
    side = read_arguments(count, arguments, 16, 4, 256, 4);
    CHECK((side & (side - 1)) == 0);
    points = side * side;
    unsigned long state = 1;
    struct complex **all[] = {&given, &result, &other, &roots};
    for (int i = 0; i < 4; i++)
        CHECK((*all[i] = calloc(points, sizeof(struct complex))) != NULL);
    for (long i = 0; i < points; i++)
        given[i] = (struct complex){next_unit(&state) - 0.5, next_unit(&state) - 0.5};
    find_roots();
    run_threads(threads, transform);
    transform_halves(given, result, points, 1);
    for (long i = 0; i < points; i++) {
        double re = other[i].re - result[i].re, im = other[i].im - result[i].im;
        CHECK(re * re + im * im < 1e-20 * points);
    }
    printf("fft: points %ld sum %016lx\n", points, mix_doubles(FIRST_SUM, &other[0].re, 2 * points));
    return 0;
}
