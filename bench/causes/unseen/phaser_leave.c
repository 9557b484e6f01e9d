/* class: deadlock (barrier count); fails by: deadlock; cause: a worker that has no more slices takes itself out of the
 * barrier's count but does not look whether it was the one the others waited for, so that those who have already
 * arrived wait for ever */
#include <pthread.h>
#include <stdio.h>

#define WORKERS 3

struct phaser {
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int parties, arrived, phase;
};

static struct phaser phaser = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, WORKERS, 0, 0 };
static const int slices[WORKERS] = { 4, 2, 4 };
static unsigned grid[WORKERS], halo[WORKERS];

static void next_phase(struct phaser *p)
{
    p->arrived = 0;
    p->phase++;
    pthread_cond_broadcast(&p->turn);
}

static void phaser_await(struct phaser *p)
{
    pthread_mutex_lock(&p->lock);
    int phase = p->phase;
    if (++p->arrived == p->parties)               // CAUSE
        next_phase(p);
    else
        while (p->phase == phase)
            pthread_cond_wait(&p->turn, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void phaser_leave(struct phaser *p)
{
    pthread_mutex_lock(&p->lock);
    p->parties--;                                 // CAUSE
    pthread_mutex_unlock(&p->lock);
}

static unsigned relax(unsigned v, int rounds)
{
    for (int i = 0; i < rounds; i++)
        v = v * 1664525u + 1013904223u;
    return v;
}

static void *worker(void *arg)
{
    int id = (int)(long)arg;
    for (int s = 0; s < slices[id]; s++) {
        grid[id] = relax(grid[id] + s, 200);
        phaser_await(&phaser);
        halo[id] += grid[id] >> 28;
    }
    phaser_leave(&phaser);
    return NULL;
}

int main(void)
{
    pthread_t t[WORKERS];
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(t[i], NULL);
    printf("%d phases, grid %u\n", phaser.phase, grid[0] ^ grid[1] ^ grid[2]);
    return phaser.phase != 4 || phaser.parties != 0;
}
