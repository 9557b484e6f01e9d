/* repaired twin of linux_rq_migrate.c */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { CPUS = 2, TASKS = 4, BALANCES = 6, RENICES = 6, HISTORY = 16 };

struct task {
    unsigned pid;
    unsigned cpu;
    long weight;
    unsigned long vruntime;
};

struct rq {
    unsigned cpu;
    pthread_mutex_t lock;
    volatile long load;
    unsigned nr_running;
    long history[HISTORY];
    unsigned updates;
};

static struct rq runqueues[CPUS];
static struct task tasks[TASKS];

static struct rq *task_rq(struct task *p) {
    return &runqueues[__atomic_load_n(&p->cpu, __ATOMIC_RELAXED)];
}

static struct rq *task_rq_lock(struct task *p) {
    for (;;) {
        struct rq *rq = task_rq(p);
        pthread_mutex_lock(&rq->lock);
        if (rq == task_rq(p))
            return rq;
        pthread_mutex_unlock(&rq->lock);
    }
}

static void double_rq_lock(struct rq *a, struct rq *b) {
    if (a > b) {
        struct rq *t = a;
        a = b;
        b = t;
    }
    pthread_mutex_lock(&a->lock);
    pthread_mutex_lock(&b->lock);
}

static void double_rq_unlock(struct rq *a, struct rq *b) {
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&b->lock);
}

static void record_load(struct rq *rq) {
    rq->history[rq->updates++ % HISTORY] = rq->load;
}

static void set_weight(struct task *p, long weight) {
    struct rq *rq = task_rq_lock(p);
    rq->load += weight - p->weight;
    p->weight = weight;
    p->vruntime += 1024 / (unsigned long)weight;
    record_load(rq);
    pthread_mutex_unlock(&rq->lock);
}

static void move_task(struct task *p, unsigned to) {
    struct rq *src = &runqueues[!to], *dst = &runqueues[to];
    double_rq_lock(src, dst);
    if (p->cpu != to) {
        src->load -= p->weight;
        src->nr_running--;
        __atomic_store_n(&p->cpu, to, __ATOMIC_RELAXED);
        dst->load += p->weight;
        dst->nr_running++;
        record_load(src);
        record_load(dst);
    }
    double_rq_unlock(src, dst);
}

static void *balancer(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < BALANCES; i++) {
        move_task(&tasks[i % TASKS], (i + i / TASKS + 1) % CPUS);
    }
    return NULL;
}

static void *renice(void *arg) {
    unsigned first = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < RENICES; i++)
        set_weight(&tasks[(first + i) % TASKS], 10 + (long)(first * 7 + i * 3));
    return NULL;
}

int main(void) {
    pthread_t t[3];
    int wrong = 0;
    for (unsigned c = 0; c < CPUS; c++) {
        runqueues[c].cpu = c;
        pthread_mutex_init(&runqueues[c].lock, NULL);
    }
    for (unsigned i = 0; i < TASKS; i++) {
        tasks[i].pid = i + 1, tasks[i].cpu = i % CPUS, tasks[i].weight = 20;
        runqueues[i % CPUS].load += 20;
        runqueues[i % CPUS].nr_running++;
    }
    pthread_create(&t[0], NULL, renice, (void *)0);
    pthread_create(&t[1], NULL, renice, (void *)2);
    pthread_create(&t[2], NULL, balancer, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (unsigned c = 0; c < CPUS; c++) {
        long sum = 0;
        for (unsigned i = 0; i < TASKS; i++)
            if (tasks[i].cpu == c)
                sum += tasks[i].weight;
        printf("cpu %u running %u load %ld\n", c, runqueues[c].nr_running, runqueues[c].load);
        if (sum != runqueues[c].load)
            wrong++;
    }
    if (wrong)
        puts("load of a run queue does not match its tasks");
    return wrong ? 1 : 0;
}
