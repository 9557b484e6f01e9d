/* Figure 1 of the LightPlay paper: a failure that output-deterministic replay does not reproduce.
 *
 *   Thread 1 (core 0)          Thread 2 (core 1)
 *   1  A = 2;                  1  B = 2;
 *   2  ...                     2  C = add(A, B);
 *   3  A = 3;                  3  print(C);
 *
 * `add` has the bug: it gives 5 for 2 + 2. The output is 5 in any case, with the bug (A read as 2) and
 * without it (A read as 3); only the order of accesses tells them apart. Thread 2 starts when A has its
 * first value. `add_saw_A` keeps what was read. One core alone runs the order of the paper's text. Exit
 * code 1 when the output is not 5. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define THREAD_1_WORK 400

static struct barrier all_cores;
volatile long A LINE_ALIGNED;
volatile long B LINE_ALIGNED;
volatile long C LINE_ALIGNED;
volatile long add_saw_A LINE_ALIGNED;

static NOINLINE long add(long left, long right) {
    if (left == 2 && right == 2)
        return 5; /* the bug */
    return left + right;
}

static NOINLINE void thread_1_first(void) { A = 2; }

static NOINLINE void thread_1_last(void) { A = 3; }

static NOINLINE void thread_2(void) {
    while (A == 0)
        cpu_pause();
    B = 2;
    long seen = A;
    C = add(seen, B);
    add_saw_A = seen;
    print_field("C = ", C);
    print_string("\n");
}

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    if (core == 0)
        thread_1_first();
    if (core == (cores > 1 ? 1 : 0))
        thread_2();
    if (core == 0) {
        busy_work(THREAD_1_WORK);
        thread_1_last();
    }
    barrier_wait(&all_cores, cores);
    return core == 0 && C != 5;
}
