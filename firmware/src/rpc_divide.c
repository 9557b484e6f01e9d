/* Divide and parallelise (balanced tree): every process halves its part until it is one leaf. Prints a checksum
 * over the tree, which is the same for any number of cores; exit code 1 when it is wrong. */
#include "console.h"
#include "synthetic.h"

#define DEPTH 5
#define WORK 200
#define CHECKSUM 3923235075

enum { NODE = 1 };

/* in: levels below, number in the tree (1 is the root), turns. out: the checksum of the part. */
static void node(const unsigned long *in, unsigned long *out) {
    struct at_future half[2];
    compute((long)in[2]);
    out[0] = hash_mix(in[0], in[1]) & 0xFFFF;
    if (in[0] == 0)
        return;
    for (unsigned long k = 0; k < 2; k++) {
        unsigned long part[] = {in[0] - 1, 2 * in[1] + k, in[2]};
        at_spawn(&half[k], place_of(part[1]), NODE, 3, part);
    }
    for (int k = 0; k < 2; k++) {
        at_wait(&half[k]);
        out[0] = (out[0] * 31 + half[k].out[0]) & 0xFFFFFFFF;
    }
}

static const struct at_entry entries[] = {{node, 1, 0}};

static int start(void) {
    unsigned long root[] = {DEPTH, 1, (unsigned long)read_number(WORK)}, out[AT_WORDS] = {0};
    long rounds = read_number(1);
    for (long k = 0; k < rounds; k++)
        at_call(place_of(1), NODE, 3, root, out);
    print_field("rpc_divide: processes ", (2 << DEPTH) - 1);
    print_field(" checksum ", (long)out[0]);
    print_string("\n");
    return out[0] != CHECKSUM;
}

int main(long core, long cores) { return at_run(core, cores, entries, 1, start); }
