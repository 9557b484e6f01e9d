/* Bodies that attract each other, after Barnes and Hut: all threads build one octree, with a lock in each cell, then
 * find centres of mass from below, then forces: far cells count as one body. Bodies are taken a few at a time. The
 * tree is the same whoever puts what in first, and each force is summed by one thread. Compared, to the last bit,
 * with one thread's. Arguments: threads, bodies. */
#include "kernels.h"

#define STEPS 2
#define STEP_TIME 0.01
#define OPENING 0.7
#define AT_ONCE 4
#define ROOT 1

struct body {
    double place[3], speed[3], pull[3];
};

/* child: 0 for none, the number of a cell, or minus the number of a body less 1. */
struct cell {
    double middle[3], half, mass, centre[3];
    long child[8];
    pthread_mutex_t lock;
};

static long bodies, most_cells;
static struct body *all;
static struct cell *cells;
static long next_cell[MOST_THREADS], next_body;
static double extent;
static pthread_mutex_t extent_lock = PTHREAD_MUTEX_INITIALIZER;

static double mass_of(long body) {
    return 1.0 + body % 3;
}

static int side_of(const struct cell *cell, const double place[3]) {
    int side = 0;
    for (int axis = 0; axis < 3; axis++)
        side |= (place[axis] >= cell->middle[axis]) << axis;
    return side;
}

static void clear_cell(struct cell *cell, const double middle[3], double half) {
    memset(cell, 0, sizeof *cell);
    CHECK(pthread_mutex_init(&cell->lock, NULL) == 0);
    memcpy(cell->middle, middle, sizeof cell->middle);
    cell->half = half;
}

/* A cell of the thread's own, for one side of `parent`; its number. */
static long new_cell(long me, const struct cell *parent, int side) {
    long number = next_cell[me]++;
    double middle[3], half = parent->half / 2;
    CHECK(number < 2 + (me + 1) * most_cells);
    for (int axis = 0; axis < 3; axis++)
        middle[axis] = parent->middle[axis] + (side >> axis & 1 ? half : -half);
    clear_cell(&cells[number], middle, half);
    return number;
}

static void insert(long me, long body) {
    struct cell *cell = &cells[ROOT];
    for (;;) {
        int side = side_of(cell, all[body].place);
        long child = __atomic_load_n(&cell->child[side], __ATOMIC_ACQUIRE);
        /* A cell that is there stays there. */
        if (child <= 0) {
            CHECK(pthread_mutex_lock(&cell->lock) == 0);
            child = cell->child[side];
            if (child == 0)
                __atomic_store_n(&cell->child[side], -body - 1, __ATOMIC_RELEASE);
            if (child < 0) {
                long fresh = new_cell(me, cell, side), other = child;
                cells[fresh].child[side_of(&cells[fresh], all[-other - 1].place)] = other;
                child = fresh;
                __atomic_store_n(&cell->child[side], child, __ATOMIC_RELEASE);
            }
            CHECK(pthread_mutex_unlock(&cell->lock) == 0);
            if (child == 0)
                return;
        }
        cell = &cells[child];
    }
}

/* Mass and centre of a cell, of what is below it first down to `depth` cells deep; beyond that it has been done. */
static void sum_cell(struct cell *cell, int depth) {
    double mass = 0, moment[3] = {0};
    for (int side = 0; side < 8; side++) {
        long child = cell->child[side];
        if (child > 0 && depth > 0)
            sum_cell(&cells[child], depth - 1);
        if (child) {
            double more = child > 0 ? cells[child].mass : mass_of(-child - 1);
            const double *place = child > 0 ? cells[child].centre : all[-child - 1].place;
            mass += more;
            for (int axis = 0; axis < 3; axis++)
                moment[axis] += more * place[axis];
        }
    }
    cell->mass = mass;
    for (int axis = 0; axis < 3; axis++)
        cell->centre[axis] = mass > 0 ? moment[axis] / mass : 0;
}

/* The trees below the root's children, dealt out; then the root. */
static void sum_tree(long me) {
    for (long side = me; side < 8; side += threads)
        if (cells[ROOT].child[side] > 0)
            sum_cell(&cells[cells[ROOT].child[side]], 1000);
    wait_for_all();
    if (me == 0)
        sum_cell(&cells[ROOT], 0);
    wait_for_all();
}

static double square_of_way(const double from[3], const double to[3], double way[3]) {
    double square = 1e-4;
    for (int axis = 0; axis < 3; axis++) {
        way[axis] = to[axis] - from[axis];
        square += way[axis] * way[axis];
    }
    return square;
}

static void pull(long body, long child) {
    if (child == 0 || child == -body - 1)
        return;
    const struct cell *cell = child > 0 ? &cells[child] : NULL;
    double way[3], square = square_of_way(all[body].place, cell ? cell->centre : all[-child - 1].place, way);
    if (cell && 4 * cell->half * cell->half > OPENING * OPENING * square) {
        for (int side = 0; side < 8; side++)
            pull(body, cell->child[side]);
        return;
    }
    double strength = (cell ? cell->mass : mass_of(-child - 1)) / (square * root(square));
    for (int axis = 0; axis < 3; axis++)
        all[body].pull[axis] += strength * way[axis];
}

static void pull_all(void) {
    for (;;) {
        long first = __atomic_fetch_add(&next_body, AT_ONCE, __ATOMIC_RELAXED);
        if (first >= bodies)
            return;
        for (long body = first; body < bodies && body < first + AT_ONCE; body++)
            pull(body, ROOT);
    }
}

static void move(long first, long end) {
    for (long body = first; body < end; body++)
        for (int axis = 0; axis < 3; axis++) {
            all[body].speed[axis] += all[body].pull[axis] * (STEP_TIME / bodies);
            all[body].place[axis] += all[body].speed[axis] * STEP_TIME;
            all[body].pull[axis] = 0;
        }
}

/* How far the thread's bodies are from the middle, at most. */
static void find_extent(long first, long end) {
    double most = 0;
    for (long body = first; body < end; body++)
        for (int axis = 0; axis < 3; axis++) {
            double far = all[body].place[axis];
            far = far < 0 ? -far : far;
            most = far > most ? far : most;
        }
    CHECK(pthread_mutex_lock(&extent_lock) == 0);
    extent = most > extent ? most : extent;
    CHECK(pthread_mutex_unlock(&extent_lock) == 0);
}

static void *simulate(void *argument) {
    long me = (long)argument, first = share(me, bodies), end = share(me + 1, bodies);
    for (int step = 0; step < STEPS; step++) {
        find_extent(first, end);
        wait_for_all();
        next_cell[me] = 2 + me * most_cells;
        if (me == 0)
            clear_cell(&cells[ROOT], (const double[3]){0}, extent * 1.01);
        wait_for_all();
        for (long body = first; body < end; body++)
            insert(me, body);
        wait_for_all();
        sum_tree(me);
        pull_all();
        wait_for_all();
        move(first, end);
        if (me == 0) {
            extent = 0;
            next_body = 0;
        }
        wait_for_all();
    }
    return argument;
}

static void place_all(void) {
    unsigned long state = 6;
    memset(all, 0, bodies * sizeof *all);
    for (long body = 0; body < bodies; body++)
        for (int axis = 0; axis < 3; axis++)
            all[body].place[axis] = next_unit(&state) * 2 - 1;
}

static unsigned long checksum(void) {
    unsigned long sum = FIRST_SUM;
    for (long body = 0; body < bodies; body++)
        sum = mix_doubles(sum, all[body].place, 6);
    return sum;
}

/* The same with so many threads; what came of it. */
static unsigned long simulate_with(long so_many) {
    double expected = 0;
    CHECK(pthread_barrier_destroy(&all_here) == 0);
    threads = so_many;
    CHECK(pthread_barrier_init(&all_here, NULL, threads) == 0);
    place_all();
    run_threads(threads, simulate);
    for (long body = 0; body < bodies; body++)
        expected += mass_of(body);
    CHECK(cells[ROOT].mass == expected);
    return checksum();
}

int main(int count, char **arguments) {
    bodies = read_arguments(count, arguments, 32, 2, 4096, 1);
    most_cells = 4 * bodies + 64;
    CHECK((all = calloc(bodies, sizeof *all)) != NULL);
    CHECK((cells = calloc(2 + threads * most_cells, sizeof *cells)) != NULL);
    unsigned long sum = simulate_with(threads);
    CHECK(simulate_with(1) == sum);
    printf("barnes: bodies %ld sum %016lx\n", bodies, sum);
    return 0;
}
