/* A task queue for each core in its own segment, and work stealing: an idle core takes the older half of what
 * another core's queue has. The program gives run_task(). */
#ifndef PGAS_TASKS_H
#define PGAS_TASKS_H

#include "pgas.h"

#define TASKS_MOST 128
#define STEAL_MOST 8

typedef struct task {
    long level, a, b, c;
} task;

typedef struct task_queue {
    pgas_lock lock;
    volatile long first LINE_ALIGNED; /* tasks [first, end) wait; numbers modulo TASKS_MOST */
    volatile long end;
    task tasks[TASKS_MOST] LINE_ALIGNED;
} task_queue;

static unsigned long queues; /* offset in every segment */
static volatile long open_tasks LINE_ALIGNED; /* pushed and not yet run, over all cores */

/* Runs one task; it may push more. */
static void run_task(long me, const task *work);

static task_queue *queue_of(long core) { return pgas_at(core, queues); }

static void push_task(long me, const task *work) {
    task_queue *mine = queue_of(me);
    fetch_add(&open_tasks, 1);
    pgas_acquire(&mine->lock);
    if (mine->end - mine->first == TASKS_MOST)
        machine_power_off(2);
    mine->tasks[mine->end % TASKS_MOST] = *work;
    mine->end++;
    pgas_release(&mine->lock);
}

static NOINLINE int pop_task(long me, task *work) {
    task_queue *mine = queue_of(me);
    int found = 0;
    pgas_acquire(&mine->lock);
    if (mine->end > mine->first) {
        mine->end--;
        *work = mine->tasks[mine->end % TASKS_MOST];
        found = 1;
    }
    pgas_release(&mine->lock);
    return found;
}

/* Moves up to half of the victim's oldest tasks here. */
static NOINLINE int steal_tasks(long me, long victim) {
    static task stolen[MACHINE_MAX_CORES][STEAL_MOST] LINE_ALIGNED;
    task_queue *theirs = queue_of(victim), *mine = queue_of(me);
    if (theirs->end - theirs->first < 2)
        return 0;
    pgas_acquire(&theirs->lock);
    long amount = (theirs->end - theirs->first) / 2;
    if (amount > STEAL_MOST)
        amount = STEAL_MOST;
    for (long i = 0; i < amount; i++)
        pgas_get_nb(&stolen[me][i], &theirs->tasks[(theirs->first + i) % TASKS_MOST], sizeof(task));
    pgas_fence();
    theirs->first += amount;
    pgas_release(&theirs->lock);
    if (amount <= 0)
        return 0;
    pgas_acquire(&mine->lock);
    for (long i = 0; i < amount; i++)
        mine->tasks[mine->end++ % TASKS_MOST] = stolen[me][i];
    pgas_release(&mine->lock);
    return 1;
}

/* Runs tasks until there are none on any core. Every core calls it, core 0 with the first task. */
static void run_tasks(long me, long cores, const task *root) {
    queues = pgas_all_alloc(me, sizeof(task_queue));
    if (me == 0)
        push_task(me, root);
    pgas_barrier();
    long victim = me;
    task work;
    while (open_tasks) {
        if (pop_task(me, &work)) {
            run_task(me, &work);
            fetch_add(&open_tasks, -1);
        } else {
            victim = victim + 1 < cores ? victim + 1 : 0;
            if (victim != me)
                steal_tasks(me, victim);
            busy_work(8);
        }
    }
    pgas_barrier();
}

#endif
