/* correct twin of upgrade_both: the second to upgrade is refused, gives its read lock back and takes the write lock */
#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define KEYS 4

struct uplock {
    pthread_mutex_t m;
    pthread_cond_t changed;
    int readers, writing, upgrading;
};

static struct uplock lock = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0 };
static int squares[KEYS];
static int filled;
static long sums[THREADS];

static void read_lock(struct uplock *l)
{
    pthread_mutex_lock(&l->m);
    while (l->writing || l->upgrading)
        pthread_cond_wait(&l->changed, &l->m);
    l->readers++;
    pthread_mutex_unlock(&l->m);
}

static void read_unlock(struct uplock *l)
{
    pthread_mutex_lock(&l->m);
    l->readers--;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->m);
}

static int upgrade(struct uplock *l)
{
    pthread_mutex_lock(&l->m);
    if (l->upgrading) {
        pthread_mutex_unlock(&l->m);
        return 0;
    }
    l->upgrading++;
    while (l->readers > 1)
        pthread_cond_wait(&l->changed, &l->m);
    l->upgrading--;
    l->readers = 0;
    l->writing = 1;
    pthread_mutex_unlock(&l->m);
    return 1;
}

static void write_lock(struct uplock *l)
{
    pthread_mutex_lock(&l->m);
    while (l->writing || l->upgrading || l->readers > 0)
        pthread_cond_wait(&l->changed, &l->m);
    l->writing = 1;
    pthread_mutex_unlock(&l->m);
}

static void write_unlock(struct uplock *l)
{
    pthread_mutex_lock(&l->m);
    l->writing = 0;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->m);
}

static int square(int key)
{
    read_lock(&lock);
    int v = squares[key];
    if (v) {
        read_unlock(&lock);
        return v;
    }
    if (!upgrade(&lock)) {
        read_unlock(&lock);
        write_lock(&lock);
    }
    if (squares[key] == 0) {
        squares[key] = (key + 1) * (key + 1);
        filled++;
    }
    v = squares[key];
    write_unlock(&lock);
    return v;
}

static void *thread(void *arg)
{
    int id = (int)(long)arg;
    for (int k = 0; k < KEYS; k++)
        sums[id] += square((k + id) % KEYS);
    return NULL;
}

int main(void)
{
    pthread_t t[THREADS];
    int bad = 0;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, thread, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        bad += sums[i] != 30;
    }
    printf("%d squares\n", filled);
    return bad || filled != KEYS;
}
