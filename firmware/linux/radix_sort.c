/* Radix sort, the lowest digit first: each thread counts the digits of its keys, then sums some digits over all
 * threads, then puts its keys where they belong, anywhere in the other array. Barriers between. Compared with the C
 * library's sort. Arguments: threads, keys. */
#include "kernels.h"

#define DIGIT_BITS 5
#define DIGITS (1 << DIGIT_BITS)
#define PASSES 4

static long keys;
static unsigned *from_keys, *to_keys;
/* How often each thread has met each digit; then where its next key with that digit goes, among those. */
static long counts[MOST_THREADS][DIGITS], totals[DIGITS];

static void sum_digits(long first, long end) {
    for (long digit = first; digit < end; digit++) {
        long before = 0;
        for (long thread = 0; thread < threads; thread++) {
            long own = counts[thread][digit];
            counts[thread][digit] = before;
            before += own;
        }
        totals[digit] = before;
    }
}

static void *sort(void *argument) {
    long me = (long)argument, first = share(me, keys), end = share(me + 1, keys);
    unsigned *from = from_keys, *to = to_keys;
    for (int pass = 0; pass < PASSES; pass++) {
        int shift = pass * DIGIT_BITS;
        memset(counts[me], 0, sizeof counts[me]);
        for (long i = first; i < end; i++)
            counts[me][from[i] >> shift & (DIGITS - 1)]++;
        wait_for_all();
        sum_digits(share(me, DIGITS), share(me + 1, DIGITS));
        wait_for_all();
        long next[DIGITS], before = 0;
        for (long digit = 0; digit < DIGITS; digit++) {
            next[digit] = before + counts[me][digit];
            before += totals[digit];
        }
        for (long i = first; i < end; i++)
            to[next[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        wait_for_all();
        unsigned *kept = from;
        from = to;
        to = kept;
    }
    return argument;
}

static int compare(const void *left, const void *right) {
    unsigned a = *(const unsigned *)left, b = *(const unsigned *)right;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    keys = read_arguments(count, arguments, 1024, 8, 1 << 20, 1);
    unsigned *plain = calloc(keys, sizeof *plain);
    CHECK((from_keys = calloc(keys, sizeof *from_keys)) != NULL);
    CHECK((to_keys = calloc(keys, sizeof *to_keys)) != NULL && plain != NULL);
    unsigned long state = 3, sum = FIRST_SUM;
    for (long i = 0; i < keys; i++)
        plain[i] = from_keys[i] = next_random(&state) >> (64 - PASSES * DIGIT_BITS);
    run_threads(threads, sort);
    qsort(plain, keys, sizeof *plain, compare);
    /* After an even number of passes the keys are where they began. */
    for (long i = 0; i < keys; i++) {
        CHECK(from_keys[i] == plain[i]);
        sum = mix(sum, from_keys[i]);
    }
    printf("radix_sort: keys %ld sum %016lx\n", keys, sum);
    return 0;
}
