/* The Athapascan model (Fagot and Chassin de Kergommeaux, section 2) over the machine's mailboxes.
 *
 * Every core is a virtual processor, and all offer the same entry points, numbered from 1. A request to an
 * entry point of some virtual processor is served by a light-weight process (thread) of its own there, which
 * gets up to AT_WORDS words and gives back as many. The program starts as one process on virtual processor 0.
 *
 *   at_call   blocking call: returns with the result
 *   at_spawn  non-blocking call; its result is asked for with
 *   at_test   has the result come? (the non-deterministic primitive), or
 *   at_wait   waits for it
 *
 * Threads are cooperative: one goes on until it calls, tests or waits. A thread starts the moment its request
 * is received, so what it does before it calls, tests or waits happens in the order of receipts. An entry
 * point with a limit has at most that many threads at once; with 1, its threads follow one another whole.
 *
 * For a replay to be faithful (the paper's assumptions, section 4.1): data that requests share is touched by
 * threads of one entry point of one virtual processor only, or handed from process to process with requests
 * and results; no process asks for the time or for random numbers; no address of something on a stack goes
 * into a message. */
#ifndef ATHAPASCAN_H
#define ATHAPASCAN_H

#include "atomic.h"

#define AT_WORDS 4
#define AT_ENTRY_POINTS 64
/* Cores beyond these park. */
#define AT_PROCESSORS 16
/* Threads that a virtual processor has at most; requests wait until one is free. */
#define AT_THREADS 64

/* in: the request's words, 0 beyond the last; out: the result's words. */
typedef void at_service(const unsigned long *in, unsigned long *out);

struct thread;

struct at_entry {
    at_service *service;
    int results; /* words of its result */
    int limit;   /* threads at once, 0 = any number */
};

/* A spawned request. `out` holds the result once it was waited for, or a test said yes. */
struct at_future {
    unsigned long request;
    unsigned long out[AT_WORDS];
    struct at_future *next;
    struct thread *waiter;
    int come; /* the result lies here */
    int seen; /* and the process knows */
};

/* Serves this core's virtual processor. entries: those of every virtual processor, of entry points 1 to n. On
 * virtual processor 0 `start` is the first process; at_run returns what it returns. Elsewhere it never
 * returns. */
int at_run(long core, long cores, const struct at_entry *entries, int n, int (*start)(void));

/* Of the process that asks. */
long at_processor(void);
long at_processors(void);

void at_spawn(struct at_future *future, long processor, int entry, int words, const unsigned long *in);
int at_test(struct at_future *future);
void at_wait(struct at_future *future);
/* out: AT_WORDS words, of which those beyond the results mean nothing. */
void at_call(long processor, int entry, int words, const unsigned long *in, unsigned long *out);

#endif
