/* A seeded bug: a lock-free stack (Treiber 1986) whose top carries no tag. pop reads the top and its
 * successor, then swaps the top for the successor. When another thread pops two nodes and pushes the first
 * back in between, the swap succeeds and puts a node on the stack that is in use (ABA). Every loop is bounded.
 * Exit code 1 when a node had two owners or the nodes at the end are not those of the beginning.
 *
 * GOOD: the top carries a tag that changes at every pop. */
#include "guest.h"

#define NODES 4
#define ROUNDS 5
#define ATTEMPTS 100

static volatile struct node {
    unsigned next; /* the number of the node below, 0: none */
    int owned;
} nodes[NODES + 1]; /* node 0 is not used */
static volatile unsigned long top; /* the number of the topmost node, above bit 32 its tag */
static volatile long double_owners;

static unsigned long with_tag(unsigned node, unsigned long old) {
#ifdef GOOD
    return node | ((old >> 32) + 1) << 32;
#else
    return node | (old >> 32) << 32;
#endif
}

static int swap_top(unsigned long expected, unsigned node) {
    return __atomic_compare_exchange_n(&top, &expected, with_tag(node, expected), 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

static NOINLINE void push(unsigned node) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        unsigned long old = top;
        nodes[node].next = (unsigned)old;
        if (swap_top(old, node))
            return;
    }
}

/* A node that this thread now owns, or 0. */
static NOINLINE unsigned pop(void) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        unsigned long old = top;
        unsigned node = (unsigned)old;
        if (!node)
            return 0;
        unsigned below = nodes[node].next;
        if (swap_top(old, below)) { /* the bug: `node` may have left and come back */
            if (__atomic_exchange_n(&nodes[node].owned, 1, __ATOMIC_SEQ_CST))
                double_owners++;
            return node;
        }
    }
    return 0;
}

static NOINLINE void give_back(unsigned node) {
    if (!node)
        return;
    nodes[node].owned = 0;
    push(node);
}

static void *take_two_and_return_them(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        unsigned first = pop(), second = pop();
        give_back(first); /* what was on top is on top again, over another node */
        give_back(second);
    }
    return argument;
}

static int count_nodes(void) {
    int found = 0;
    for (unsigned node = (unsigned)top; node && found <= NODES; node = nodes[node].next)
        found++;
    return found;
}

int main(void) {
    for (unsigned node = 1; node <= NODES; node++)
        push(node);
    run_threads(2, take_two_and_return_them);
    int found = count_nodes();
    printf(PROGRAM ": nodes %d found %d double owners %ld\n", NODES, found, double_owners);
    return found != NODES || double_owners != 0;
}
