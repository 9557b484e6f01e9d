/* The futex system call itself: WAIT and WAKE with their errors, WAIT_BITSET with absolute time-outs on both
 * clocks, bitsets, REQUEUE and CMP_REQUEUE, WAKE_OP, private and shared words. */
#include "guest.h"
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#define THREADS 6

static int word, second_word, ready;
static long woken;

static long futex(int *address, int operation, int value, const void *timeout, int *address2, unsigned value3) {
    return syscall(SYS_futex, address, operation, value, timeout, address2, value3);
}

static void *wait_for_word(void *argument) {
    unsigned bitset = (unsigned)(long)argument;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    while (futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, bitset) != 0)
        CHECK(errno == EINTR);
    __atomic_fetch_add(&woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Start THREADS threads that wait for `word`, thread i with the bit i of the bitset. */
static void start_waiters(pthread_t *threads) {
    ready = 0;
    woken = 0;
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(wait_for_word, (void *)(1L << i));
}

static void join_all(pthread_t *threads) {
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    CHECK(woken == THREADS);
}

/* Apply a wake-up again and again until it has reached `n` threads: some may not wait yet. */
#define UNTIL(n, call)                                                                                             \
    for (long reached = 0; reached < (n);) {                                                                       \
        long now_reached = (call);                                                                                 \
        CHECK(now_reached >= 0);                                                                                   \
        reached += now_reached;                                                                                    \
        if (!now_reached)                                                                                          \
            sleep_ms(1);                                                                                           \
    }

static void check_errors(void) {
    struct timespec soon = timespec_of(3 * MILLISECOND), until, wrong = {0, SECOND};
    long before = now(CLOCK_MONOTONIC);
    CHECK_FAILS(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN);
    CHECK_FAILS(futex(&word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0), ETIMEDOUT);
    CHECK(now(CLOCK_MONOTONIC) - before >= 3 * MILLISECOND);
    until = time_from_now(CLOCK_MONOTONIC, 3);
    CHECK_FAILS(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, NULL, UINT_MAX), ETIMEDOUT);
    CHECK(now(CLOCK_MONOTONIC) >= until.tv_sec * SECOND + until.tv_nsec);
    until = time_from_now(CLOCK_REALTIME, 3);
    int on_realtime = FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME;
    CHECK_FAILS(futex(&word, on_realtime, 0, &until, NULL, UINT_MAX), ETIMEDOUT);
    CHECK(now(CLOCK_REALTIME) >= until.tv_sec * SECOND + until.tv_nsec);
    CHECK_FAILS(futex(&word, FUTEX_WAIT_PRIVATE, 0, &wrong, NULL, 0), EINVAL);
    CHECK_FAILS(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0), EINVAL);
    CHECK_FAILS(futex((int *)((char *)&word + 1), FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EINVAL);
    CHECK_FAILS(futex((int *)4096, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EFAULT);
    CHECK_FAILS(futex(&word, 99, 0, NULL, NULL, 0), ENOSYS);
    CHECK(futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0) == 0);
    CHECK(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
}

static void check_bitsets(void) {
    pthread_t threads[THREADS];
    start_waiters(threads);
    UNTIL(1, futex(&word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, 4)); /* only thread 2 has that bit */
    join(threads[2]);
    CHECK(woken == 1);
    UNTIL(2, futex(&word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, 3)); /* threads 0 and 1 */
    join(threads[0]);
    join(threads[1]);
    CHECK(woken == 3);
    UNTIL(3, futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    for (int i = 3; i < THREADS; i++)
        join(threads[i]);
    CHECK(woken == THREADS);
}

static void check_requeue(void) {
    pthread_t threads[THREADS];
    start_waiters(threads);
    CHECK_FAILS(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)100L, &second_word, 55), EAGAIN);
    UNTIL(THREADS, futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)100L, &second_word, 0));
    CHECK(woken == 0 && futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0) == 0);
    CHECK(futex(&second_word, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0) == 2);
    CHECK(futex(&second_word, FUTEX_REQUEUE_PRIVATE, 1, (void *)100L, &word, 0) == THREADS - 2);
    CHECK(futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0) == THREADS - 3);
    join_all(threads);
}

/* WAKE_OP: change the second word, wake at the first, and at the second if its old value compares. */
static void check_wake_op(void) {
    pthread_t threads[THREADS];
    int add_if_one = FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 1);
    start_waiters(threads);
    second_word = 0;
    UNTIL(3, futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1L, &second_word, 0)); /* 3, one by one */
    second_word = 1;
    CHECK(futex(&ready, FUTEX_WAKE_OP_PRIVATE, 1, (void *)100L, &second_word, add_if_one) == 3);
    CHECK(second_word == 6);
    CHECK(futex(&ready, FUTEX_WAKE_OP_PRIVATE, 1, (void *)100L, &second_word, add_if_one) == 0);
    CHECK(second_word == 11);
    int or_bit = FUTEX_OP((FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT), 6, FUTEX_OP_CMP_GT, 100);
    CHECK(futex(&ready, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, &second_word, or_bit) == 0);
    CHECK(second_word == (11 | 1 << 6));
    second_word = 0;
    UNTIL(3, futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0));
    join_all(threads);
}

int main(void) {
    check_errors();
    check_bitsets();
    check_requeue();
    check_wake_op();
    printf("futex_raw: errors, time-outs, bitsets, requeue, wake-op\n");
    return 0;
}
