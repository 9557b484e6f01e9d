/* A small partitioned global address space in the manner of UPC. Global memory is one segment for each core,
 * which has affinity with it; every core can reach all of it, by loads and stores or by puts and gets. */
#ifndef PGAS_H
#define PGAS_H

#include "barrier.h"
#include "locks.h"
#include "machine.h"

#define PGAS_SEGMENT_BYTES (16 * 1024)

/* To be called by every core first: declares its segment, and waits for the others. */
void pgas_start(long me, long cores);

/* Every core calls it with the same number: that many zeroed bytes in each segment, at the same offset, which
 * it returns (upc_all_alloc). Ends the program with exit code 3 when a segment is full. */
unsigned long pgas_all_alloc(long me, unsigned long bytes);

/* The place at `offset` in a core's segment. */
void *pgas_at(long core, unsigned long offset);

/* The core that an address has affinity with. */
long pgas_affinity(const volatile void *address);

/* All cores have come here, with their own puts and gets done. */
void pgas_barrier(void);

/* The same in two phases (upc_notify, upc_wait), in turns: this core's puts and gets are done, and it has come here;
 * all cores have. Between the two it does what needs no other core. */
void pgas_notify(long me);
void pgas_wait(long me);

/* One-sided copies: 8-byte aligned, a multiple of 8 bytes. The _nb ones are done after the next fence. */
void pgas_put_nb(volatile void *remote, const volatile void *local, unsigned long bytes);
void pgas_get_nb(volatile void *local, const volatile void *remote, unsigned long bytes);
void pgas_fence(void);
void pgas_memput(volatile void *remote, const volatile void *local, unsigned long bytes);
void pgas_memget(volatile void *local, const volatile void *remote, unsigned long bytes);

/* A word of global memory, by dereference of a global pointer. */
static inline long pgas_read(const volatile long *remote) { return *remote; }
static inline void pgas_write(volatile long *remote, long value) { *remote = value; }

/* A word of global memory by relaxed and strict accesses. Relaxed writes reach memory in any order, as puts do, but
 * those of one core to one word in its order, and it finds what it wrote itself. Before a strict access is made, all
 * that its core has started before is done; and it is done before the core goes on. */
void pgas_write_relaxed(long me, volatile long *remote, long value);
long pgas_read_relaxed(long me, const volatile long *remote);
void pgas_write_strict(long me, volatile long *remote, long value);
long pgas_read_strict(long me, const volatile long *remote);

/* A word of global memory, by a put or get of 8 bytes. */
void pgas_put_word(volatile long *remote, long value);
long pgas_get_word(const volatile long *remote);

/* A lock in global memory; zeroed memory is an open one. */
typedef struct spin_lock pgas_lock;
static inline void pgas_acquire(pgas_lock *lock) { spin_acquire(lock); }
static inline void pgas_release(pgas_lock *lock) {
    pgas_fence();
    spin_release(lock);
}

/* The sum over all cores of what each gives, for each of them; at most one at a time. */
long pgas_sum(long me, long value);

#endif
