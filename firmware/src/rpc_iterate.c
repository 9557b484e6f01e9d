/* Regular iteration: the same number of forks in every step; a step begins with what the last one found. Prints
 * what the last step found, the same for any number of cores; exit code 1 when it is wrong. */
#include "console.h"
#include "synthetic.h"

#define STEPS 6
#define FORKS 10
#define WORK 200
#define STATE 367258761

enum { PART = 1 };

static struct at_future parts[FORKS] LINE_ALIGNED;

/* in: the state, which part, turns. out: what it found. */
static void part(const unsigned long *in, unsigned long *out) {
    compute((long)in[2]);
    out[0] = hash_mix(in[0], in[1]) & 0xFFFFFFFF;
}

static const struct at_entry entries[] = {{part, 1, 0}};

static unsigned long step(unsigned long state, unsigned long work) {
    for (unsigned long k = 0; k < FORKS; k++) {
        unsigned long in[] = {state, k, work};
        at_spawn(&parts[k], (long)k % at_processors(), PART, 3, in);
    }
    for (int k = 0; k < FORKS; k++) {
        at_wait(&parts[k]);
        state = hash_mix(state, parts[k].out[0]) & 0xFFFFFFFF;
    }
    return state;
}

static int start(void) {
    unsigned long work = (unsigned long)read_number(WORK), state = 0;
    for (long rounds = read_number(1); rounds > 0; rounds--) {
        state = 1;
        for (int k = 0; k < STEPS; k++)
            state = step(state, work);
    }
    print_field("rpc_iterate: steps ", STEPS);
    print_field(" state ", (long)state);
    print_string("\n");
    return state != STATE;
}

int main(long core, long cores) { return at_run(core, cores, entries, 1, start); }
