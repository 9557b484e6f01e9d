/* class: none (correct twin of innodb_row_move: the latches are taken in order of the table's id) */
#include <pthread.h>
#include <stdio.h>

#define TABLES 3
#define ROWS 40
#define MOVES 20

struct table {
    int id;
    pthread_mutex_t latch;
    int nrows;
    int rows[TABLES * ROWS];
    unsigned long checksum;
};

struct job {
    struct table *src, *dst;
    int moved;
};

static struct table dict[TABLES];

static void row_append(struct table *t, int row)
{
    t->rows[t->nrows++] = row;
    t->checksum += (unsigned long)row;
}

static int row_remove_last(struct table *t)
{
    int row = t->rows[--t->nrows];
    t->checksum -= (unsigned long)row;
    return row;
}

static void latch_pair(struct table *src, struct table *dst)
{
    struct table *first = src->id < dst->id ? src : dst;
    struct table *second = src->id < dst->id ? dst : src;
    pthread_mutex_lock(&first->latch);
    pthread_mutex_lock(&second->latch);
}

static int row_move(struct table *src, struct table *dst)
{
    int ok = 0;

    latch_pair(src, dst);
    if (src->nrows > 0) {
        row_append(dst, row_remove_last(src));
        ok = 1;
    }
    pthread_mutex_unlock(&dst->latch);
    pthread_mutex_unlock(&src->latch);
    return ok;
}

static void *mover(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < MOVES; i++)
        j->moved += row_move(j->src, j->dst);
    return NULL;
}

int main(void)
{
    pthread_t th[TABLES];
    struct job jobs[TABLES];
    unsigned long want = 0, got = 0;
    int nrows = 0;

    for (int i = 0; i < TABLES; i++) {
        dict[i].id = i;
        pthread_mutex_init(&dict[i].latch, NULL);
        for (int r = 0; r < ROWS; r++) {
            row_append(&dict[i], i * 1000 + r);
            want += (unsigned long)(i * 1000 + r);
        }
    }
    for (int i = 0; i < TABLES; i++) {
        jobs[i] = (struct job){ &dict[i], &dict[(i + 1) % TABLES], 0 };
        pthread_create(&th[i], NULL, mover, &jobs[i]);
    }
    for (int i = 0; i < TABLES; i++)
        pthread_join(th[i], NULL);
    for (int i = 0; i < TABLES; i++) {
        nrows += dict[i].nrows;
        got += dict[i].checksum;
    }
    if (nrows != TABLES * ROWS || got != want) {
        printf("FAIL: %d rows, checksum %lu, expected %lu\n", nrows, got, want);
        return 1;
    }
    printf("ok: %d rows, %d moves\n", nrows, jobs[0].moved + jobs[1].moved + jobs[2].moved);
    return 0;
}
