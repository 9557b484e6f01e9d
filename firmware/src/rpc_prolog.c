/* Prolog-like search tree (unbalanced): every process tries the clauses of its goal, as many as a hash says, in
 * parallel, and counts the solutions below. Prints how many nodes and solutions there are, the same for any
 * number of cores; exit code 1 when they are wrong. */
#include "console.h"
#include "synthetic.h"

#define CLAUSES 4  /* of the root */
#define BRANCHES 3 /* at most, of any other node */
#define DEPTH 9
#define WORK 150
#define TREE_SEED 38
#define NODES 70
#define FOUND 12

enum { GOAL = 1 };

static unsigned long branches(unsigned long depth, unsigned long hash) {
    if (depth == 0)
        return CLAUSES;
    return depth < DEPTH ? hash % 8 % (BRANCHES + 1) : 0;
}

/* in: depth, hash, turns. out: nodes and solutions of the part. */
static void goal(const unsigned long *in, unsigned long *out) {
    struct at_future clause[CLAUSES];
    unsigned long n = branches(in[0], in[1]);
    compute((long)(in[2] / 2 + in[1] % (in[2] + 1)));
    for (unsigned long k = 0; k < n; k++) {
        unsigned long part[] = {in[0] + 1, hash_mix(in[1], k), in[2]};
        at_spawn(&clause[k], place_of(part[1]), GOAL, 3, part);
    }
    out[0] = 1;
    out[1] = n == 0 && in[1] % 3 == 0;
    for (unsigned long k = 0; k < n; k++) {
        at_wait(&clause[k]);
        out[0] += clause[k].out[0];
        out[1] += clause[k].out[1];
    }
}

static const struct at_entry entries[] = {{goal, 2, 0}};

static int start(void) {
    unsigned long root[] = {0, hash_mix(TREE_SEED, 0), (unsigned long)read_number(WORK)}, out[AT_WORDS] = {0};
    long rounds = read_number(1);
    for (long k = 0; k < rounds; k++)
        at_call(0, GOAL, 3, root, out);
    print_field("rpc_prolog: nodes ", (long)out[0]);
    print_field(" solutions ", (long)out[1]);
    print_string("\n");
    return out[0] != NODES || out[1] != FOUND;
}

int main(long core, long cores) { return at_run(core, cores, entries, 1, start); }
