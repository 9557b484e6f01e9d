/* class: barrier reused too early; fails by: deadlock; cause: the last arriver resets arrived to 0 and enters the next phase, raising it to 1, before a woken waiter has re-read arrived, so that waiter takes the old phase for unfinished and sleeps on */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { TEAM = 3, PHASES = 3, CELLS = 12 };

struct gomp_barrier {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned total;
    unsigned arrived;
};

static struct gomp_barrier bar = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, TEAM, 0,
};
static int grid[2][CELLS];
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned stat_cells;

static void gomp_barrier_wait(struct gomp_barrier *b) {
    pthread_mutex_lock(&b->lock);
    if (++b->arrived == b->total) { // CAUSE
        b->arrived = 0; // CAUSE
        pthread_cond_broadcast(&b->cond);
    } else {
        while (b->arrived != 0) // CAUSE
            pthread_cond_wait(&b->cond, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
}

static int relax(const int *old, int i) {
    int l = old[(i + CELLS - 1) % CELLS], r = old[(i + 1) % CELLS];
    return (l + 2 * old[i] + r) % 1009;
}

static void read_next_block(int phase) {
    /* the input for the next phase comes from a slow device */
    if (phase < PHASES - 1)
        usleep(1500);
}

static void *worker(void *arg) {
    int self = (int)(long)arg;
    for (int p = 0; p < PHASES; p++) {
        const int *old = grid[p & 1];
        int *new = grid[(p + 1) & 1];
        int from = self * (CELLS / TEAM), to = from + CELLS / TEAM;
        for (int i = from; i < to; i++)
            new[i] = relax(old, i);
        pthread_mutex_lock(&stat_lock);
        stat_cells += (unsigned)(to - from);
        pthread_mutex_unlock(&stat_lock);
        gomp_barrier_wait(&bar);
        read_next_block(p);
    }
    return NULL;
}

static void serial(int *g) {
    int tmp[CELLS];
    for (int p = 0; p < PHASES; p++) {
        for (int i = 0; i < CELLS; i++)
            tmp[i] = relax(g, i);
        for (int i = 0; i < CELLS; i++)
            g[i] = tmp[i];
    }
}

int main(void) {
    pthread_t t[TEAM];
    int want[CELLS], bad = 0;
    for (int i = 0; i < CELLS; i++)
        grid[0][i] = want[i] = i * i + 1;
    for (long i = 0; i < TEAM; i++)
        pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < TEAM; i++)
        pthread_join(t[i], NULL);
    serial(want);
    for (int i = 0; i < CELLS; i++)
        bad |= grid[PHASES & 1][i] != want[i];
    printf("cells %u %s\n", stat_cells, bad ? "WRONG" : "ok");
    return bad;
}
