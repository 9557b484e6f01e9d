/* N queens as a process farm (Fagot and Chassin de Kergommeaux, section 5): workers ask virtual processor 0
 * for placements of the first two queens, and send it every solution they find. Who gets which task, and in
 * which order solutions come in, depends on the schedule; the list of solutions shows it. Prints it; exit code 1
 * when a solution is missing. */
#include "athapascan.h"
#include "console.h"

#define QUEENS 7
#define SOLUTIONS 40
#define FULL ((1u << QUEENS) - 1)
#define TASKS (QUEENS * QUEENS)
#define NO_TASK TASKS
#define EAGER 3 /* tests of a request before a worker waits for it */

enum { TASK = 1, FOUND, WORK };

/* Of entry point TASK. */
static long next_task;
/* Of entry point FOUND: solutions in the order of receipt, the queens' columns as decimal digits. */
static long found;
static unsigned long list[SOLUTIONS] LINE_ALIGNED;
/* Of the first process. */
static struct at_future workers[AT_PROCESSORS] LINE_ALIGNED;

static void task(const unsigned long *in, unsigned long *out) {
    (void)in;
    out[0] = (unsigned long)(next_task < TASKS ? next_task++ : NO_TASK);
}

static void solution(const unsigned long *in, unsigned long *out) {
    if (found < SOLUTIONS)
        list[found] = in[0];
    out[0] = (unsigned long)++found;
}

/* Tells of every solution with `columns` taken and the two diagonals, shifted to the row to fill, under attack. */
static void search(unsigned columns, unsigned left, unsigned right, unsigned long placed) {
    unsigned long out[AT_WORDS];
    if (columns == FULL)
        at_call(0, FOUND, 1, &placed, out);
    for (unsigned open = FULL & ~(columns | left | right); open; open &= open - 1) {
        unsigned queen = open & -open;
        search(columns | queen, (left | queen) << 1, (right | queen) >> 1,
               placed * 10 + (unsigned)__builtin_ctz(queen) + 1);
    }
}

static void solve_task(long number) {
    long a = number / QUEENS, b = number % QUEENS;
    unsigned first = 1u << a, second = 1u << b;
    if (!(second & (first | first << 1 | first >> 1)))
        search(first | second, (first << 1 | second) << 1, (first >> 1 | second) >> 1,
               (unsigned long)(a + 1) * 10 + (unsigned long)b + 1);
}

/* One worker: it asks for its next task before it begins the one it has, and gives back how many tasks it did
 * and how often a test found that the next had not come. */
static void work(const unsigned long *in, unsigned long *out) {
    struct at_future next;
    unsigned long mine[AT_WORDS];
    long done = 0, early = 0;
    (void)in;
    at_call(0, TASK, 0, 0, mine);
    while (mine[0] != NO_TASK) {
        at_spawn(&next, 0, TASK, 0, 0);
        solve_task((long)mine[0]);
        done++;
        for (int k = 0; k < EAGER && !at_test(&next); k++)
            early++;
        at_wait(&next);
        mine[0] = next.out[0];
    }
    out[0] = (unsigned long)done;
    out[1] = (unsigned long)early;
}

static const struct at_entry entries[] = {{task, 1, 1}, {solution, 1, 1}, {work, 2, 0}};

static int start(void) {
    long processors = at_processors(), done = 0;
    for (long k = 0; k < processors; k++)
        at_spawn(&workers[k], k, WORK, 0, 0);
    for (long k = 0; k < processors; k++) {
        at_wait(&workers[k]);
        done += (long)workers[k].out[0];
    }
    print_field("rpc_queens: queens ", QUEENS);
    print_field(" solutions ", found);
    print_field(" tasks ", done);
    print_string(" in the order");
    for (long k = 0; k < found && k < SOLUTIONS; k++)
        print_field(" ", (long)list[k]);
    print_string("\n");
    return found != SOLUTIONS || done != TASKS;
}

int main(long core, long cores) { return at_run(core, cores, entries, 3, start); }
