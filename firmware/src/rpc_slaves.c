/* Master and slaves: a variable number of forks in every step, as many as a hash of what the last step found says.
 * The slaves' entry point has a limit of one thread, and counts what it did. Prints the tasks and what the last
 * step found, the same for any number of cores; exit code 1 when they are wrong. */
#include "console.h"
#include "synthetic.h"

#define STEPS 8
#define MOST 16 /* tasks of a step */
#define WORK 200
#define TASKS 53
#define STATE 720388982

enum { TASK = 1, DONE };

/* Of the first process. */
static struct at_future tasks[MOST] LINE_ALIGNED;
/* Of entry point TASK of each virtual processor. */
static struct { long done; } LINE_ALIGNED slaves[AT_PROCESSORS];

/* in: the state, which task, turns. out: what it found. */
static void task(const unsigned long *in, unsigned long *out) {
    compute((long)in[2]);
    slaves[at_processor()].done++;
    out[0] = hash_mix(in[0], in[1]) & 0xFFFFFFFF;
}

/* out: how many tasks this virtual processor has done. Nothing else runs when the master asks. */
static void done(const unsigned long *in, unsigned long *out) {
    (void)in;
    out[0] = (unsigned long)slaves[at_processor()].done;
}

static const struct at_entry entries[] = {{task, 1, 1}, {done, 1, 0}};

static unsigned long step(unsigned long state, unsigned long work, long *count) {
    unsigned long n = 1 + state % MOST;
    for (unsigned long k = 0; k < n; k++) {
        unsigned long in[] = {state, k, work};
        at_spawn(&tasks[k], place_of(state + k), TASK, 3, in);
    }
    for (unsigned long k = 0; k < n; k++) {
        at_wait(&tasks[k]);
        state = hash_mix(state, tasks[k].out[0]) & 0xFFFFFFFF;
    }
    *count += (long)n;
    return state;
}

static int start(void) {
    unsigned long work = (unsigned long)read_number(WORK), state = 0, out[AT_WORDS];
    long rounds = read_number(1), count = 0, counted = 0;
    for (long k = 0; k < rounds; k++) {
        state = 1;
        for (int s = 0; s < STEPS; s++)
            state = step(state, work, &count);
    }
    for (long k = 0; k < at_processors(); k++) {
        at_call(k, DONE, 0, 0, out);
        counted += (long)out[0];
    }
    print_field("rpc_slaves: tasks ", count);
    print_field(" state ", (long)state);
    print_string("\n");
    return state != STATE || count != rounds * TASKS || counted != count;
}

int main(long core, long cores) { return at_run(core, cores, entries, 2, start); }
