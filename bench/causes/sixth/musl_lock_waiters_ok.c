/* repaired twin of musl_lock_waiters.c */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 4, SLOTS = 4 };

struct mlock {
    atomic_int state;
    atomic_int waiters;
    sem_t park;
};

struct file {
    struct mlock lock;
    char buf[256];
    unsigned len;
    unsigned flushes;
};

static struct file out;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned stat_bytes[SLOTS];

static void mlock_init(struct mlock *l) {
    atomic_init(&l->state, 0);
    atomic_init(&l->waiters, 0);
    sem_init(&l->park, 0, 0);
}

static void mlock_lock(struct mlock *l) {
    for (;;) {
        int zero = 0;
        if (atomic_compare_exchange_strong(&l->state, &zero, 1))
            return;
        atomic_fetch_add(&l->waiters, 1);
        if (atomic_load(&l->state) == 1)
            while (sem_wait(&l->park) != 0)
                ;
        atomic_fetch_sub(&l->waiters, 1);
    }
}

static void mlock_unlock(struct mlock *l) {
    atomic_store(&l->state, 0);
    if (atomic_load(&l->waiters))
        sem_post(&l->park);
}

static void file_flush(struct file *f) {
    f->flushes++;
    f->len = 0;
}

static void file_write(struct file *f, const char *s, unsigned n) {
    mlock_lock(&f->lock);
    if (f->len + n > sizeof f->buf)
        file_flush(f);
    memcpy(f->buf + f->len, s, n);
    f->len += n;
    mlock_unlock(&f->lock);
}

static void *writer(void *arg) {
    unsigned self = (unsigned)(size_t)arg;
    char line[24];
    unsigned total = 0;
    for (unsigned r = 0; r < ROUNDS; r++) {
        unsigned n = 5 + (self * 3 + r) % 11;
        memset(line, 'a' + (int)self, sizeof line);
        file_write(&out, line, n);
        total += n;
        pthread_mutex_lock(&stat_lock);
        stat_bytes[(self + r) % SLOTS] += n;
        pthread_mutex_unlock(&stat_lock);
    }
    return (void *)(size_t)total;
}

int main(void) {
    pthread_t t[THREADS];
    unsigned sum = 0, stats = 0;
    mlock_init(&out.lock);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, writer, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *r;
        pthread_join(t[i], &r);
        sum += (unsigned)(size_t)r;
    }
    for (int i = 0; i < SLOTS; i++)
        stats += stat_bytes[i];
    printf("wrote %u, counted %u, %u flushes\n", sum, stats, out.flushes);
    return sum == stats ? 0 : 1;
}
