/* Molecules that attract and repel each other in pairs, in a box whose sides meet, as in Water-Nsquared: a thread
 * takes the pairs of its molecules with the half of all that follows, sums forces by itself, and adds them to the
 * molecules' under a lock for each. Sums are of whole numbers, so that their order does not matter. Compared, to the
 * last bit, with a plain sum over all pairs. Arguments: threads, molecules. */
#include "kernels.h"

#define STEPS 2
#define BOX 4.0
#define STEP_TIME 0.002
/* Units of force and energy in 1. */
#define UNITS 0x1p24

struct molecule {
    double place[3], speed[3];
    long force[3];
    pthread_mutex_t lock;
};

static long molecules;
static struct molecule *all;
static long (*sums)[3];
static pthread_mutex_t energy_lock = PTHREAD_MUTEX_INITIALIZER;
static long energy;

/* The force of b on a, in units; that of a on b is the opposite, to the last unit. Returns the pair's energy. */
static long force_between(const struct molecule *a, const struct molecule *b, long force[3]) {
    double way[3], square = 0.04;
    for (int axis = 0; axis < 3; axis++) {
        way[axis] = a->place[axis] - b->place[axis];
        if (way[axis] > BOX / 2)
            way[axis] -= BOX;
        else if (way[axis] < -BOX / 2)
            way[axis] += BOX;
        square += way[axis] * way[axis];
    }
    double near = 1 / square, third = near * near * near;
    double push = third * (third - 0.5) * near / root(square);
    push = push > 100 ? 100 : push;
    for (int axis = 0; axis < 3; axis++)
        force[axis] = (long)(push * way[axis] * UNITS);
    double pair = third * (third - 1);
    return (long)((pair > 1000 ? 1000 : pair) * UNITS);
}

/* Pairs of the molecules from `first` to below `end` with the half of all that follows each; their energy. */
static long sum_pairs(long first, long end, long (*own)[3]) {
    long total = 0;
    memset(own, 0, molecules * sizeof *own);
    for (long i = first; i < end; i++)
        for (long step = 1; step <= molecules / 2; step++) {
            long j = (i + step) % molecules, force[3];
            /* Of an even number of molecules, those that face each other would meet twice. */
            if (2 * step == molecules && i > j)
                continue;
            total += force_between(&all[i], &all[j], force);
            for (int axis = 0; axis < 3; axis++) {
                own[i][axis] += force[axis];
                own[j][axis] -= force[axis];
            }
        }
    return total;
}

static void move(struct molecule *one) {
    for (int axis = 0; axis < 3; axis++) {
        one->speed[axis] += (double)one->force[axis] * (STEP_TIME / UNITS);
        one->place[axis] += one->speed[axis] * STEP_TIME;
        if (one->place[axis] >= BOX)
            one->place[axis] -= BOX;
        else if (one->place[axis] < 0)
            one->place[axis] += BOX;
        one->force[axis] = 0;
    }
}

static void add_forces(const long (*own)[3]) {
    for (long i = 0; i < molecules; i++) {
        if (!(own[i][0] | own[i][1] | own[i][2]))
            continue;
        CHECK(pthread_mutex_lock(&all[i].lock) == 0);
        for (int axis = 0; axis < 3; axis++)
            all[i].force[axis] += own[i][axis];
        CHECK(pthread_mutex_unlock(&all[i].lock) == 0);
    }
}

static void *simulate(void *argument) {
    long me = (long)argument, first = share(me, molecules), end = share(me + 1, molecules);
    long(*own)[3] = sums + me * molecules;
    for (int step = 0; step < STEPS; step++) {
        long total = sum_pairs(first, end, own);
        add_forces((const long(*)[3])own);
        CHECK(pthread_mutex_lock(&energy_lock) == 0);
        energy += total;
        CHECK(pthread_mutex_unlock(&energy_lock) == 0);
        wait_for_all();
        for (long i = first; i < end; i++)
            move(&all[i]);
        wait_for_all();
    }
    return argument;
}

/* Every pair once, in the order of their numbers. Returns the energy of all steps. */
static long simulate_plainly(void) {
    long total = 0, force[3];
    for (int step = 0; step < STEPS; step++) {
        for (long i = 0; i < molecules; i++)
            for (long j = i + 1; j < molecules; j++) {
                total += force_between(&all[i], &all[j], force);
                for (int axis = 0; axis < 3; axis++) {
                    all[i].force[axis] += force[axis];
                    all[j].force[axis] -= force[axis];
                }
            }
        for (long i = 0; i < molecules; i++)
            move(&all[i]);
    }
    return total;
}

static void place_all(void) {
    unsigned long state = 5;
    for (long i = 0; i < molecules; i++) {
        memset(&all[i], 0, sizeof all[i]);
        CHECK(pthread_mutex_init(&all[i].lock, NULL) == 0);
        for (int axis = 0; axis < 3; axis++)
            all[i].place[axis] = BOX * next_unit(&state);
    }
}

static unsigned long checksum(void) {
    unsigned long sum = FIRST_SUM;
    for (long i = 0; i < molecules; i++)
        sum = mix_doubles(sum, all[i].place, 3);
    return sum;
}

int main(int count, char **arguments) {
    molecules = read_arguments(count, arguments, 32, 2, 4096, 1);
    CHECK((all = calloc(molecules, sizeof *all)) != NULL);
    CHECK((sums = calloc(threads * molecules, sizeof *sums)) != NULL);
    place_all();
    run_threads(threads, simulate);
    unsigned long sum = checksum();
    place_all();
    CHECK(simulate_plainly() == energy);
    CHECK(checksum() == sum);
    printf("water: molecules %ld energy %ld sum %016lx\n", molecules, energy, sum);
    return 0;
}
