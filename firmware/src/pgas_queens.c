/* N queens by tasks, after the UPC Task Library's nqueens: a task is a partial placement. Prints the number of
 * solutions; exit code 1 when it is wrong, 2 when a queue overflows. */
#include "console.h"
#include "pgas_tasks.h"

#define QUEENS 7
#define SOLUTIONS 40
#define TASK_LEVELS 2 /* rows that are placed by tasks of their own */

static volatile long results[MACHINE_MAX_CORES][MACHINE_LINE_BYTES / 8] LINE_ALIGNED;

static long solve(long row, long columns, long left, long right) {
    if (row == QUEENS)
        return 1;
    long solutions = 0;
    for (long free = ~(columns | left | right) & ((1 << QUEENS) - 1); free; free &= free - 1) {
        long queen = free & -free;
        solutions += solve(row + 1, columns | queen, (left | queen) << 1, (right | queen) >> 1);
    }
    return solutions;
}

static void run_task(long me, const task *work) {
    if (work->level == TASK_LEVELS) {
        results[me][0] += solve(work->level, work->a, work->b, work->c);
        return;
    }
    for (long free = ~(work->a | work->b | work->c) & ((1 << QUEENS) - 1); free; free &= free - 1) {
        long queen = free & -free;
        push_task(me, &(task){work->level + 1, work->a | queen, (work->b | queen) << 1, (work->c | queen) >> 1});
    }
}

int main(long me, long cores) {
    pgas_start(me, cores);
    run_tasks(me, cores, &(task){0, 0, 0, 0});
    long sum = pgas_sum(me, results[me][0]);
    if (me != 0)
        return 0;
    print_field("pgas_queens: queens ", QUEENS);
    print_field(" solutions ", sum);
    print_string("\n");
    return sum != SOLUTIONS;
}
