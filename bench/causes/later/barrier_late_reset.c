/* class: barrier (count reset after the release); fails by: hang; cause: the last thread of a hand-written barrier
 * opens it and only then sets the count back to zero, so that the arrival of a thread which was faster in the next
 * phase is wiped out, the count never gets full again and all spin for ever */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define WORKERS 3
#define PHASES 3
#define CELLS 12

struct barrier {
    atomic_int arrived;
    atomic_uint phase;
};

static struct barrier barrier;
static int grid[PHASES + 1][CELLS];

static void barrier_wait(struct barrier *b)
{
    unsigned phase = atomic_load(&b->phase);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == WORKERS) {    // CAUSE
        atomic_store(&b->phase, phase + 1);       // CAUSE
        atomic_store(&b->arrived, 0);             // CAUSE
        return;
    }
    while (atomic_load(&b->phase) == phase)
        sched_yield();
}

static void relax(int phase, int from, int to)
{
    for (int c = from; c < to; c++) {
        int left = grid[phase][(c + CELLS - 1) % CELLS];
        int right = grid[phase][(c + 1) % CELLS];
        grid[phase + 1][c] = (left + grid[phase][c] + right) % 1000;
    }
}

static void *worker(void *arg)
{
    int id = *(int *)arg;
    int part = CELLS / WORKERS;
    for (int phase = 0; phase < PHASES; phase++) {
        relax(phase, id * part, (id + 1) * part);
        barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[WORKERS];
    int id[WORKERS], expected[CELLS], sum = 0, wanted = 0;
    for (int c = 0; c < CELLS; c++)
        grid[0][c] = 3 * c + 1;
    for (int phase = 0; phase < PHASES; phase++)
        relax(phase, 0, CELLS);
    for (int c = 0; c < CELLS; c++) {
        expected[c] = grid[PHASES][c];
        for (int phase = 1; phase <= PHASES; phase++)
            grid[phase][c] = 0;
    }
    for (int w = 0; w < WORKERS; w++) {
        id[w] = w;
        pthread_create(&t[w], NULL, worker, &id[w]);
    }
    for (int w = 0; w < WORKERS; w++)
        pthread_join(t[w], NULL);
    for (int c = 0; c < CELLS; c++) {
        sum += grid[PHASES][c];
        wanted += expected[c];
    }
    printf("sum %d, expected %d\n", sum, wanted);
    return sum != wanted;
}
