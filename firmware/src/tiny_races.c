/* Tests of a few instructions each, for searches through all interleavings (docs/exhaustive.md): litmus tests,
 * whose exit code is what they read, a bit each; the locks and the barrier of lib/, locks of loads and stores,
 * and publications, which exit with 1 if they went wrong. The name of the test is standard input; those that
 * begin with bad_ have a bug. Cores that a test has nothing for park. */
#include "barrier.h"
#include "locks.h"
#include "machine.h"

#define CORES 4
#define DEFAULT_TEST "ticket"
#define UNKNOWN_TEST 99
#define UNTIL(condition)                                                                                               \
    while (!(condition))                                                                                               \
    cpu_pause()

struct word {
    volatile long v LINE_ALIGNED;
};

static struct word x, y, count, turn, want[2], next, serving, ready;
static struct word done[CORES];
static long seen[CORES], wrong[2];
static struct spin_lock spin;
static struct ticket_lock ticket_lock;
static struct mcs_lock mcs_lock;
static struct mcs_node nodes[2];
static struct barrier barrier;

/* A critical section: an increment that gets lost if two are in it. */
static void critical(void) { count.v = count.v + 1; }
static long both(void) { return count.v != 2; }

/* -- litmus tests -- */
static void sb(long me) {
    struct word *mine = me ? &y : &x, *other = me ? &x : &y;
    mine->v = 1;
    seen[me] = other->v;
}
static void mp(long me) {
    if (me == 0) {
        x.v = 1;
        y.v = 1;
    } else {
        seen[0] = y.v;
        seen[1] = x.v;
    }
}
static void lb(long me) {
    struct word *mine = me ? &y : &x, *other = me ? &x : &y;
    seen[me] = mine->v;
    other->v = 1;
}
static void corr(long me) {
    if (me == 0) {
        x.v = 1;
    } else {
        seen[0] = x.v;
        seen[1] = x.v;
    }
}
static void two_writes(long me) {
    struct word *mine = me ? &y : &x, *other = me ? &x : &y;
    mine->v = 1;
    other->v = 2;
}
static void iriw(long me) {
    if (me == 0)
        x.v = 1;
    else if (me == 1)
        y.v = 1;
    else {
        struct word *first = me == 2 ? &x : &y, *second = me == 2 ? &y : &x;
        seen[2 * me - 4] = first->v;
        seen[2 * me - 3] = second->v;
    }
}
/* Under TSO: with a fence between; and where each sees its own store before others do. */
static void fenced_sb(long me) {
    struct word *mine = me ? &y : &x, *other = me ? &x : &y;
    mine->v = 1;
    full_fence();
    seen[me] = other->v;
}
static void rfi(long me) {
    struct word *mine = me ? &y : &x, *other = me ? &x : &y;
    mine->v = 1;
    wrong[me] = mine->v != 1;
    seen[me] = other->v;
}
static long two(void) { return seen[0] * 2 + seen[1]; }
static long four(void) { return two() * 4 + seen[2] * 2 + seen[3]; }
static long two_left(void) { return (x.v - 1) * 2 + y.v - 1; }

/* -- locks of loads and stores -- */
static void leave(long me) {
    critical();
    want[me].v = 0;
}
static inline void peterson_with(long me, int fenced) {
    want[me].v = 1;
    turn.v = !me;
    if (fenced)
        full_fence();
    UNTIL(!want[!me].v || turn.v == me);
    leave(me);
}
static void peterson(long me) { peterson_with(me, 0); }
static void fenced_peterson(long me) { peterson_with(me, 1); }
static void bad_peterson(long me) {
    turn.v = !me;
    want[me].v = 1;
    UNTIL(!want[!me].v || turn.v == me);
    leave(me);
}
static inline void want_it(long me, int fenced) {
    want[me].v = 1;
    if (fenced)
        full_fence();
}
static inline void dekker_with(long me, int fenced) {
    want_it(me, fenced);
    while (want[!me].v) {
        if (turn.v != me) {
            want[me].v = 0;
            UNTIL(turn.v == me);
            want_it(me, fenced);
        }
    }
    critical();
    turn.v = !me;
    want[me].v = 0;
}
static void dekker(long me) { dekker_with(me, 0); }
static void fenced_dekker(long me) { dekker_with(me, 1); }
static void bad_dekker(long me) {
    UNTIL(!want[!me].v);
    want[me].v = 1;
    leave(me);
}

/* -- locks of lib/ -- */
static void spinning(long me) {
    (void)me;
    spin_acquire(&spin);
    critical();
    spin_release(&spin);
}
static void bad_spinning(long me) {
    (void)me;
    UNTIL(!spin.taken);
    spin.taken = 1;
    critical();
    spin_release(&spin);
}
static void ticket(long me) {
    (void)me;
    ticket_acquire(&ticket_lock);
    critical();
    ticket_release(&ticket_lock);
}
static void bad_ticket(long me) {
    long mine = next.v;
    (void)me;
    next.v = mine + 1;
    UNTIL(serving.v >= mine);
    critical();
    serving.v = mine + 1;
}
static void mcs(long me) {
    mcs_acquire(&mcs_lock, &nodes[me]);
    critical();
    mcs_release(&mcs_lock, &nodes[me]);
}
/* The node says that it waits only once the other may have handed over. */
static void bad_mcs(long me) {
    struct mcs_node *mine = &nodes[me];
    mine->next = 0;
    struct mcs_node *before = __atomic_exchange_n(&mcs_lock.tail, mine, __ATOMIC_SEQ_CST);
    if (before) {
        before->next = mine;
        mine->waiting = 1;
        UNTIL(!mine->waiting);
    }
    critical();
    mcs_release(&mcs_lock, mine);
}

/* -- others -- */
static void meeting(long me) {
    (me ? &y : &x)->v = 1;
    barrier_wait(&barrier, 2);
    wrong[me] = !(me ? &x : &y)->v;
}
/* The count is reset only once the others may have gone on, to the next barrier. */
static void bad_meeting(long me) {
    for (long round = 0; round < 2; round++) {
        long sense = barrier.sense;
        if (fetch_add(&barrier.arrived, 1) == 1) {
            barrier.sense = !sense;
            barrier.arrived = 0;
        } else {
            UNTIL(barrier.sense != sense);
        }
    }
    (void)me;
}
static void publish(long me) {
    if (me == 0) {
        x.v = 7;
        ready.v = 1;
    } else if (ready.v) {
        wrong[1] = x.v != 7;
    }
}
static void bad_publish(long me) {
    if (me == 0) {
        ready.v = 1;
        x.v = 7;
    } else if (ready.v) {
        wrong[1] = x.v != 7;
    }
}
/* Two that print: the order of what they print is the devices'. */
static void print(long me) { machine_write(MACHINE_CONSOLE_TX, 'a' + (unsigned long)me); }
static void unguarded(long me) {
    (void)me;
    critical();
}
static long is_wrong(void) { return wrong[0] || wrong[1]; }
static long two_or_wrong(void) { return is_wrong() ? 4 : two(); }
static long never(void) { return 0; }

static const struct test {
    const char *name;
    void (*body)(long me);
    long (*check)(void);
    long cores;
} tests[] = {
    {"sb", sb, two, 2},
    {"mp", mp, two, 2},
    {"lb", lb, two, 2},
    {"corr", corr, two, 2},
    {"2+2w", two_writes, two_left, 2},
    {"iriw", iriw, four, 4},
    {"sb+fence", fenced_sb, two, 2},
    {"sb+rfi", rfi, two_or_wrong, 2},
    {"peterson", peterson, both, 2},
    {"peterson+fence", fenced_peterson, both, 2},
    {"bad_peterson", bad_peterson, both, 2},
    {"dekker", dekker, both, 2},
    {"dekker+fence", fenced_dekker, both, 2},
    {"bad_dekker", bad_dekker, both, 2},
    {"spin", spinning, both, 2},
    {"bad_spin", bad_spinning, both, 2},
    {"ticket", ticket, both, 2},
    {"bad_ticket", bad_ticket, both, 2},
    {"mcs", mcs, both, 2},
    {"bad_mcs", bad_mcs, both, 2},
    {"barrier", meeting, is_wrong, 2},
    {"bad_barrier", bad_meeting, never, 2},
    {"publish", publish, is_wrong, 2},
    {"bad_publish", bad_publish, is_wrong, 2},
    {"print", print, never, 2},
    {"bad_count", unguarded, both, 2},
};

/* The test that core 0 has chosen, for the others. */
static const struct test *volatile chosen LINE_ALIGNED;

static const struct test *find(void) {
    char name[16];
    unsigned long n = 0, byte;
    while (n < sizeof name - 1 && (byte = machine_read(MACHINE_CONSOLE_RX)) != ~0UL && byte > ' ')
        name[n++] = (char)byte;
    name[n] = 0;
    for (unsigned k = 0; k < sizeof tests / sizeof *tests; k++) {
        const char *a = tests[k].name, *b = n ? name : DEFAULT_TEST;
        while (*a && *a == *b)
            a++, b++;
        if (*a == *b)
            return &tests[k];
    }
    return 0;
}

int main(long core, long cores) {
    if (core == 0) {
        const struct test *test = find();
        if (!test)
            return UNKNOWN_TEST;
        if (cores < test->cores)
            return 0;
        chosen = test;
    } else {
        UNTIL(chosen);
    }
    const struct test *test = chosen;
    if (core < test->cores)
        test->body(core);
    if (core != 0) {
        compiler_fence();
        done[core & (CORES - 1)].v = 1;
        return 0;
    }
    for (long other = 1; other < test->cores; other++)
        UNTIL(done[other].v);
    return (int)test->check();
}
