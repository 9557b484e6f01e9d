/* Red-black relaxation of a grid, as in Ocean's solver: all red points from their black neighbours, all black ones
 * from the red, until nothing changes by more than so much. Each thread has some rows and reads its neighbours'
 * edges; the greatest change is found under a lock. Compared, to the last bit, with one thread's. Arguments: threads,
 * side of the grid. */
#include "kernels.h"

#define MOST_SWEEPS 12
#define TOLERANCE 1e-4
#define RELAXATION 1.4

static long side, wide;
static double *grid, *plain;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The greatest change of this sweep, and of the one before, by turns. */
static double greatest[2];
static long sweeps;

/* Relax the points of one colour in rows `first` to below `end`; the greatest change. */
static double relax(double *points, long first, long end, long colour) {
    double most = 0;
    for (long row = first; row < end; row++)
        for (long column = 1 + (row + colour) % 2; column <= side; column += 2) {
            double *point = &points[row * wide + column];
            double mean = (point[-wide] + point[-1] + point[1] + point[wide]) * 0.25;
            double change = RELAXATION * (mean - *point), size = change < 0 ? -change : change;
            *point += change;
            most = size > most ? size : most;
        }
    return most;
}

static void *solve(void *argument) {
    long me = (long)argument, first = 1 + share(me, side), end = 1 + share(me + 1, side);
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        double most = relax(grid, first, end, 0);
        wait_for_all();
        double black = relax(grid, first, end, 1);
        most = black > most ? black : most;
        CHECK(pthread_mutex_lock(&lock) == 0);
        if (most > greatest[sweep % 2])
            greatest[sweep % 2] = most;
        CHECK(pthread_mutex_unlock(&lock) == 0);
        wait_for_all();
        if (greatest[sweep % 2] < TOLERANCE)
            break;
        /* Nobody writes the next one before the next barrier. */
        if (me == 0) {
            greatest[(sweep + 1) % 2] = 0;
            sweeps = sweep + 1;
        }
    }
    return argument;
}

static long solve_plainly(void) {
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        double red = relax(plain, 1, side + 1, 0), black = relax(plain, 1, side + 1, 1);
        if (red < TOLERANCE && black < TOLERANCE)
            return sweep;
    }
    return MOST_SWEEPS;
}

int main(int count, char **arguments) {
    side = read_arguments(count, arguments, 24, 2, 1022, 1);
    wide = side + 2;
    CHECK((grid = calloc(wide * wide, sizeof *grid)) != NULL);
    CHECK((plain = calloc(wide * wide, sizeof *plain)) != NULL);
    unsigned long state = 4;
    for (long i = 0; i < wide * wide; i++)
        plain[i] = grid[i] = next_unit(&state);
    run_threads(threads, solve);
    CHECK(solve_plainly() == sweeps);
    CHECK(memcmp(plain, grid, wide * wide * sizeof *grid) == 0);
    printf("ocean: side %ld sweeps %ld sum %016lx\n", side, sweeps, mix_doubles(FIRST_SUM, grid, wide * wide));
    return 0;
}
