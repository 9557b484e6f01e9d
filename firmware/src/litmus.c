/* Litmus tests of x86's memory model (Sewell et al., "x86-TSO", CACM 53(7), 2010; Intel SDM volume 3,
 * 9.2.3). x and y are 0 at first. Each line says in how many rounds the outcome was seen that sequential
 * consistency forbids:
 *
 *   sb        core 0: x = 1; r = y           core 1: y = 1; s = x         r = 0, s = 0
 *   sb+fence  the same with mfence between
 *   mp        core 0: x = 1; y = 1           core 1: r = y; s = x         r = 1, s = 0
 *   lb        core 0: r = x; y = 1           core 1: s = y; x = 1         r = 1, s = 1
 *   2+2w      core 0: x = 1; y = 2           core 1: y = 1; x = 2         x = 1, y = 1
 *   n6        core 0: x = 1; q = x; r = y    core 1: y = 2; x = 2         q = 1, r = 0, x = 1
 *   iriw      cores 0, 1: x = 1, y = 1       cores 2, 3: read both, in    each sees one and not the other
 *                                            opposite orders
 *
 * TSO allows sb and n6. Exit code 1 if any other was seen. Each round has variables of its own, each in a
 * line of its own. After its part a core burns time without touching memory, so that what waits in its store
 * buffer can wait while others run. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define ROUNDS 24
#define IDLE 1500

enum test { SB, SB_FENCE, MP, LB, TWO_WRITES, N6, IRIW, TESTS };

struct cell {
    volatile long value LINE_ALIGNED;
};

static struct barrier all_cores;
static struct cell x[TESTS][ROUNDS], y[TESTS][ROUNDS];
static struct cell seen[TESTS][ROUNDS][4][2];

static NOINLINE void two_cores(long core, enum test test, volatile long *mine, volatile long *other,
                               struct cell *saw) {
    switch (test) {
    case SB:
        *mine = 1;
        compiler_fence();
        saw[0].value = *other;
        break;
    case SB_FENCE:
        *mine = 1;
        full_fence();
        saw[0].value = *other;
        break;
    case MP:
        if (core == 0) {
            *mine = 1;
            compiler_fence();
            *other = 1;
        } else {
            long r = *mine;
            compiler_fence();
            saw[0].value = r;
            saw[1].value = *other;
        }
        break;
    case LB: {
        long r = *mine;
        compiler_fence();
        *other = 1;
        saw[0].value = r;
        break;
    }
    case TWO_WRITES:
        *mine = 1;
        compiler_fence();
        *other = 2;
        break;
    case N6:
        if (core == 0) {
            *mine = 1;
            compiler_fence();
            long q = *mine;
            compiler_fence();
            long r = *other;
            saw[0].value = q;
            saw[1].value = r;
        } else {
            *mine = 2;
            compiler_fence();
            *other = 2;
        }
        break;
    default:
        break;
    }
}

static NOINLINE void four_cores(long core, volatile long *mine, volatile long *other, struct cell *saw) {
    if (core < 2) {
        *mine = 1;
    } else {
        long r = *mine;
        compiler_fence();
        saw[0].value = r;
        saw[1].value = *other;
    }
}

static NOINLINE void play(long core, enum test test, long round) {
    volatile long *first = &x[test][round].value, *second = &y[test][round].value;
    if (core % 2 == 0)
        two_cores(core, test, first, second, seen[test][round][core]);
    else
        two_cores(core, test, second, first, seen[test][round][core]);
}

static long forbidden(enum test test, long round) {
    struct cell(*saw)[2] = seen[test][round];
    long at_x = x[test][round].value, at_y = y[test][round].value;
    switch (test) {
    case SB:
    case SB_FENCE:
        return saw[0][0].value == 0 && saw[1][0].value == 0;
    case MP:
        return saw[1][0].value == 1 && saw[1][1].value == 0;
    case LB:
        return saw[0][0].value == 1 && saw[1][0].value == 1;
    case TWO_WRITES:
        return at_x == 1 && at_y == 1;
    case N6:
        return saw[0][0].value == 1 && saw[0][1].value == 0 && at_x == 1;
    default:
        return saw[2][0].value && !saw[2][1].value && saw[3][0].value && !saw[3][1].value;
    }
}

int main(long core, long cores) {
    static const char *const names[TESTS] = {"litmus: sb ", " sb+fence ", " mp ", " lb ", " 2+2w ", " n6 ", " iriw "};
    for (long test = 0; test < TESTS; test++) {
        long players = test == IRIW ? 4 : 2;
        for (long round = 0; round < ROUNDS; round++) {
            barrier_wait(&all_cores, cores);
            if (cores < players || core >= players)
                continue;
            if (test != IRIW)
                play(core, test, round);
            else if (core % 2 == 0)
                four_cores(core, &x[test][round].value, &y[test][round].value, seen[test][round][core]);
            else
                four_cores(core, &y[test][round].value, &x[test][round].value, seen[test][round][core]);
            busy_work(IDLE);
        }
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    long wrong = 0;
    for (long test = 0; test < TESTS; test++) {
        long count = 0;
        long players = test == IRIW ? 4 : 2;
        for (long round = 0; cores >= players && round < ROUNDS; round++)
            count += forbidden(test, round);
        print_field(names[test], count);
        if (test != SB && test != N6)
            wrong += count;
    }
    print_string("\n");
    return wrong != 0;
}
