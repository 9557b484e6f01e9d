/* A test-and-set spin lock, and two that queue: ticket, and MCS (Mellor-Crummey and Scott 1991). Queues
 * cost a hand-over to a waiting core at each release, test-and-set does not. */
#ifndef LOCKS_H
#define LOCKS_H

#include "atomic.h"

struct spin_lock {
    volatile long taken LINE_ALIGNED;
};

static inline void spin_acquire(struct spin_lock *lock) {
    while (exchange(&lock->taken, 1))
        while (lock->taken)
            cpu_pause();
}

static inline void spin_release(struct spin_lock *lock) {
    compiler_fence();
    lock->taken = 0;
}

struct ticket_lock {
    volatile long next_ticket LINE_ALIGNED;
    volatile long now_serving LINE_ALIGNED;
};

static inline void ticket_acquire(struct ticket_lock *lock) {
    long mine = fetch_add(&lock->next_ticket, 1);
    while (lock->now_serving != mine)
        cpu_pause();
}

static inline void ticket_release(struct ticket_lock *lock) {
    compiler_fence();
    lock->now_serving = lock->now_serving + 1;
}

struct mcs_node {
    struct mcs_node *volatile next LINE_ALIGNED;
    volatile long waiting;
};

struct mcs_lock {
    struct mcs_node *volatile tail LINE_ALIGNED;
};

static inline void mcs_acquire(struct mcs_lock *lock, struct mcs_node *mine) {
    mine->next = 0;
    mine->waiting = 1;
    struct mcs_node *before = __atomic_exchange_n(&lock->tail, mine, __ATOMIC_SEQ_CST);
    if (before) {
        before->next = mine;
        while (mine->waiting)
            cpu_pause();
    }
    compiler_fence();
}

static inline void mcs_release(struct mcs_lock *lock, struct mcs_node *mine) {
    compiler_fence();
    if (!mine->next) {
        struct mcs_node *expected = mine;
        if (__atomic_compare_exchange_n(&lock->tail, &expected, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
        while (!mine->next)
            cpu_pause();
    }
    mine->next->waiting = 0;
}

#endif
