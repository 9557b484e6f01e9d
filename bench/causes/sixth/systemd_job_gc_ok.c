/* repaired twin of systemd_job_gc.c */
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define JOB_MAGIC 0x4a4f4221u
enum { NJOBS = 4, ROUNDS = 6, GC_PASSES = 8 };

struct job {
    struct job *gc_next;
    unsigned id;
    volatile int n_ref;
    bool in_gc;
    unsigned work;
    volatile uint32_t magic;
};

static struct manager {
    pthread_mutex_t lock;
    struct job *jobs[NJOBS];
    struct job *gc_queue;
    unsigned n_collected;
    pthread_mutex_t stat_lock;
    unsigned n_runs, n_misses;
} m = { .lock = PTHREAD_MUTEX_INITIALIZER, .stat_lock = PTHREAD_MUTEX_INITIALIZER };

static void job_add_to_gc(struct job *j) {
    if (j->in_gc)
        return;
    j->in_gc = true;
    j->gc_next = m.gc_queue;
    m.gc_queue = j;
}

static struct job *manager_get_job(unsigned id) {
    pthread_mutex_lock(&m.lock);
    struct job *j = m.jobs[id];
    if (j)
        j->n_ref++;
    pthread_mutex_unlock(&m.lock);
    return j;
}

static void job_unref(struct job *j) {
    pthread_mutex_lock(&m.lock);
    assert(j->magic == JOB_MAGIC);
    if (--j->n_ref == 0)
        job_add_to_gc(j);
    pthread_mutex_unlock(&m.lock);
}

static void job_free(struct job *j) {
    j->magic = 0xdeadu;
    free(j);
}

static bool manager_gc_one(void) {
    pthread_mutex_lock(&m.lock);
    struct job *j = m.gc_queue;
    if (j) {
        m.gc_queue = j->gc_next;
        j->in_gc = false;
    }
    bool dead = j && j->n_ref == 0;
    if (dead) {
        m.jobs[j->id] = NULL;
        m.n_collected++;
    }
    pthread_mutex_unlock(&m.lock);
    if (!j)
        return false;
    if (dead)
        job_free(j);
    return true;
}

static void *client(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    for (unsigned r = 0; r < ROUNDS; r++) {
        struct job *j = manager_get_job((r * self + self) % NJOBS);
        pthread_mutex_lock(&m.stat_lock);
        if (j) m.n_runs++; else m.n_misses++;
        pthread_mutex_unlock(&m.stat_lock);
        if (!j)
            continue;
        for (int i = 0; i < 20; i++)
            __atomic_fetch_add(&j->work, i, __ATOMIC_RELAXED);
        assert(j->magic == JOB_MAGIC);
        job_unref(j);
    }
    return NULL;
}

static void *dispatcher(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < NJOBS; i++)
        job_unref(m.jobs[i]);
    return NULL;
}

static void *collector(void *arg) {
    (void)arg;
    for (int i = 0; i < GC_PASSES; i++)
        manager_gc_one();
    return NULL;
}

int main(void) {
    pthread_t t[4];
    for (unsigned i = 0; i < NJOBS; i++) {
        struct job *j = calloc(1, sizeof *j);
        j->id = i, j->n_ref = 1, j->magic = JOB_MAGIC;
        m.jobs[i] = j;
    }
    pthread_create(&t[0], NULL, client, (void *)1);
    pthread_create(&t[1], NULL, client, (void *)3);
    pthread_create(&t[2], NULL, dispatcher, NULL);
    pthread_create(&t[3], NULL, collector, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    while (manager_gc_one())
        ;
    printf("collected %u runs %u\n", m.n_collected, m.n_runs);
    return m.n_collected == NJOBS ? 0 : 1;
}
