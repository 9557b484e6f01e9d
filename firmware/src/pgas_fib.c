/* fib(N) by tasks: a task splits into two until it is small, after the UPC Task Library's fib. Work stealing
 * over one-sided communication. Prints the number; exit code 1 when it is wrong, 2 when a queue overflows. */
#include "console.h"
#include "pgas_tasks.h"

#define FIB_OF 18
#define FIB_IS 2584
#define SMALL 8

static volatile long results[MACHINE_MAX_CORES][MACHINE_LINE_BYTES / 8] LINE_ALIGNED;

static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static void run_task(long me, const task *work) {
    if (work->level <= SMALL) {
        results[me][0] += fib(work->level);
        return;
    }
    push_task(me, &(task){.level = work->level - 1});
    push_task(me, &(task){.level = work->level - 2});
}

int main(long me, long cores) {
    pgas_start(me, cores);
    run_tasks(me, cores, &(task){.level = FIB_OF});
    long sum = pgas_sum(me, results[me][0]);
    if (me != 0)
        return 0;
    print_field("pgas_fib: fib ", FIB_OF);
    print_field(" is ", sum);
    print_string("\n");
    return sum != FIB_IS;
}
