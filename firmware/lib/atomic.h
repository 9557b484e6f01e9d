/* Plain names for the atomic instructions and hints that the programs use. */
#ifndef ATOMIC_H
#define ATOMIC_H

#include "machine.h"

#define LINE_ALIGNED __attribute__((aligned(MACHINE_LINE_BYTES)))
#define PAGE_ALIGNED __attribute__((aligned(MACHINE_PAGE_BYTES)))
/* A function of its own in the symbol table, and a basic block boundary where it is called. */
#define NOINLINE __attribute__((noinline, noclone))

/* lock xadd: adds, returns what was there before. */
static inline long fetch_add(volatile long *where, long amount) {
    return __atomic_fetch_add(where, amount, __ATOMIC_SEQ_CST);
}

/* xchg: stores, returns what was there before. */
static inline long exchange(volatile long *where, long value) {
    return __atomic_exchange_n(where, value, __ATOMIC_SEQ_CST);
}

/* lock cmpxchg: true when `where` held `expected` and now holds `wanted`. */
static inline int compare_swap(volatile long *where, long expected, long wanted) {
    return __atomic_compare_exchange_n(where, &expected, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline void cpu_pause(void) { __asm__ volatile("pause" ::: "memory"); }
static inline void full_fence(void) { __asm__ volatile("mfence" ::: "memory"); }
static inline void compiler_fence(void) { __asm__ volatile("" ::: "memory"); }

/* Burns about 2 * turns instructions in registers only, in basic blocks of its own: a race window that
 * a scheduler can hit whether it switches between instructions or between blocks, at no cost in
 * memory events. */
static inline void busy_work(long turns) {
    __asm__ volatile("1: dec %0\n\t jnz 1b" : "+r"(turns) : : "cc");
}

#endif
