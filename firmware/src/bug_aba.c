/* A real bug: a lock-free stack (Treiber 1986) whose top carries no tag. pop reads the top and its
 * successor, then swaps the top for the successor; when the same node is back on top by then, with
 * another successor, the swap succeeds and puts a node on the stack that someone else owns (ABA).
 *
 * Every node has an owner mark, so a node that is popped twice is noticed; at the end the nodes on the
 * stack are counted. Every loop is bounded: a corrupted stack cannot hang the program. Prints nodes
 * expected, nodes found and double owners; exit code 1 when the stack was corrupted. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define NODES_PER_CORE 2
#define ROUNDS 50
#define ATTEMPTS 200
#define WINDOW 40
#define HOLD 90

struct node {
    struct node *volatile next LINE_ALIGNED;
    volatile long owned;
    volatile long counted;
};

static struct barrier all_cores;
static struct node nodes[NODES_PER_CORE * MACHINE_MAX_CORES];
static struct node *volatile stack_top LINE_ALIGNED;
static volatile long double_owners LINE_ALIGNED;

static int swap_top(struct node *expected, struct node *wanted) {
    return compare_swap((volatile long *)&stack_top, (long)expected, (long)wanted);
}

static NOINLINE void push(struct node *node) {
    for (long attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct node *top = stack_top;
        node->next = top;
        if (swap_top(top, node))
            return;
    }
}

static NOINLINE struct node *successor(const struct node *top) {
    struct node *next = top->next;
    busy_work(WINDOW);
    return next;
}

static NOINLINE struct node *pop(void) {
    for (long attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct node *top = stack_top;
        if (!top)
            continue;
        struct node *next = successor(top);
        if (swap_top(top, next)) { /* the bug: `top` may have left and come back in between */
            if (exchange(&top->owned, 1))
                fetch_add(&double_owners, 1);
            return top;
        }
    }
    return 0;
}

static NOINLINE void give_back(struct node *node) {
    if (!node)
        return;
    exchange(&node->owned, 0);
    push(node);
}

/* Distinct nodes on the stack; stops at a node that it has met. */
static NOINLINE long count_stack(void) {
    long found = 0;
    for (struct node *node = stack_top; node && !node->counted; node = node->next) {
        node->counted = 1;
        found++;
    }
    return found;
}

int main(long core, long cores) {
    for (long i = 0; i < NODES_PER_CORE; i++)
        push(&nodes[core * NODES_PER_CORE + i]);
    barrier_wait(&all_cores, cores);
    for (long round = 0; round < ROUNDS && !double_owners; round++) {
        struct node *first = pop();
        struct node *second = pop();
        give_back(first); /* what was on top is on top again, over another successor */
        busy_work(HOLD);
        give_back(second);
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    long expected = NODES_PER_CORE * cores, found = count_stack();
    print_field("bug_aba: expected ", expected);
    print_field(" found ", found);
    print_field(" double owners ", double_owners);
    print_string("\n");
    return found != expected || double_owners != 0;
}
