/* Unbalanced tree search with asynchronous work stealing: Listing 1 of the OPR paper (deterministic
 * record and replay of one-sided communication, section 3.1), over puts and gets. As uts.c, but the stacks lie
 * in the cores' segments, the victim answers by two puts with a fence between them, and the thief gets the nodes
 * from the victim's stack.
 *
 * The tree comes from a hash, so the number of nodes is the same whoever visits them. Prints it; exit
 * code 1 when it is wrong, 2 when a stack overflows. */
#include "console.h"
#include "hash.h"
#include "machine.h"
#include "pgas.h"

#ifndef TREE_NODES /* build.py makes larger ones, for measuring */
#define ROOT_CHILDREN 24
#define CHILD_CHANCE 225 /* of 1000: below 1000 / CHILDREN, or the tree never ends */
#define TREE_NODES 613 /* what this tree has */
#define STACK_NODES 512
#endif
#define CHILDREN 4
#define TREE_SEED 18
#define NODE_WORK 20

#define REQ_AVAILABLE (-1L)
#define WAITING_FOR_WORK (-2L)
#define NO_WORK (-1L)

typedef struct Node {
    unsigned long hash;
    long depth;
} Node;

typedef struct StealStack {
    /* read by thieves that look for a victim */
    volatile long workAvail LINE_ALIGNED;
    /* a thief's number, or REQ_AVAILABLE */
    volatile long req_thread LINE_ALIGNED;
    /* the victim's answer to this core's own request */
    volatile long stolen_work_addr LINE_ALIGNED;
    volatile long stolen_work_amt;
    /* chunks given away whose nodes the thief has not copied yet */
    volatile long uncopied LINE_ALIGNED;
    /* nodes [local, stop) are this core's; those below `local` were given away */
    long local LINE_ALIGNED;
    long stop;
    long nNodes;
    long nRelease;
    long nSteal;
    Node stack_g[STACK_NODES] LINE_ALIGNED;
} StealStack;

static const long chunkSize = 2;
static unsigned long stacks; /* where every segment has its core's StealStack */
static volatile long idle_cores LINE_ALIGNED;
static volatile long search_over LINE_ALIGNED;

static StealStack *stack_of(long core) { return pgas_at(core, stacks); }

static long ss_localDepth(StealStack *ss) { return ss->stop - ss->local; }

static void ss_push(StealStack *ss, Node node) {
    if (ss->stop == STACK_NODES)
        machine_power_off(2);
    ss->stack_g[ss->stop++] = node;
}

/* Answers a thief: the amount first, then the address that the thief spins on. */
static void answer(long requestor, long stealAmt, long position) {
    pgas_put_word(&stack_of(requestor)->stolen_work_amt, stealAmt); /* with the fence of the listing */
    pgas_put_word(&stack_of(requestor)->stolen_work_addr, position);
}

static NOINLINE void checkSteal(StealStack *ss) {
    long d = ss_localDepth(ss);
    ss->workAvail = d;
    long requestor = ss->req_thread;
    if (requestor < 0)
        return;
    long stealAmt = 0;
    long position = NO_WORK;
    if (d > 2 * chunkSize) {
        stealAmt = (d / 2 / chunkSize) * chunkSize;
        position = ss->local;
        ss->local += stealAmt;
        ss->nRelease++;
        ss->workAvail = d - stealAmt;
        fetch_add(&ss->uncopied, 1);
    }
    ss->req_thread = REQ_AVAILABLE;
    answer(requestor, stealAmt, position);
}

/* True when nodes were stolen from `victim`. */
static NOINLINE int ss_steal(StealStack *s, long thief, long victim) {
    long stealIndex = WAITING_FOR_WORK;
    s->stolen_work_addr = WAITING_FOR_WORK;
    if (!compare_swap(&stack_of(victim)->req_thread, REQ_AVAILABLE, thief))
        return 0;
    while (stealIndex == WAITING_FOR_WORK) {
        stealIndex = s->stolen_work_addr;
        if (search_over)
            return 0;
        checkSteal(s); /* two thieves may have asked each other */
        cpu_pause();
    }
    if (stealIndex < 0)
        return 0;
    full_fence(); /* upc_fence of the listing */
    long stealAmt = s->stolen_work_amt;
    if (s->stop + stealAmt > STACK_NODES)
        machine_power_off(2);
    pgas_memget(&s->stack_g[s->stop], &stack_of(victim)->stack_g[stealIndex], (unsigned long)stealAmt * sizeof(Node));
    s->stop += stealAmt;
    fetch_add(&stack_of(victim)->uncopied, -1);
    s->nSteal += stealAmt;
    return 1;
}

/* Looks for work until some is found (true) or every core is out of it (false). */
static int find_work(StealStack *ss, long core, long cores) {
    long victim = core;
    fetch_add(&idle_cores, 1);
    for (;;) {
        checkSteal(ss);
        if (search_over || idle_cores == cores) {
            search_over = 1; /* a thief may still wait for an answer that will not come */
            return 0;
        }
        victim = victim + 1 < cores ? victim + 1 : 0;
        if (victim != core && stack_of(victim)->workAvail > 2 * chunkSize) {
            fetch_add(&idle_cores, -1);
            if (ss_steal(ss, core, victim))
                return 1;
            fetch_add(&idle_cores, 1);
        }
        cpu_pause();
    }
}

static NOINLINE void visit_node(StealStack *ss) {
    Node node = ss->stack_g[--ss->stop];
    long children = node.depth == 0 ? ROOT_CHILDREN : node.hash % 1000 < CHILD_CHANCE ? CHILDREN : 0;
    ss->nNodes++;
    busy_work(NODE_WORK);
    if (ss_localDepth(ss) == 0 && ss->uncopied == 0)
        ss->local = ss->stop = 0;
    for (long child = 0; child < children; child++)
        ss_push(ss, (Node){hash_mix(node.hash, (unsigned long)child), node.depth + 1});
}

static void search_tree(StealStack *ss, long core, long cores) {
    do {
        while (ss_localDepth(ss) > 0) {
            visit_node(ss);
            checkSteal(ss);
        }
    } while (find_work(ss, core, cores));
}

int main(long core, long cores) {
    pgas_start(core, cores);
    stacks = pgas_all_alloc(core, sizeof(StealStack));
    StealStack *ss = stack_of(core);
    ss->req_thread = REQ_AVAILABLE;
    if (core == 0)
        ss_push(ss, (Node){hash_mix(TREE_SEED, 0), 0});
    pgas_barrier();
    search_tree(ss, core, cores);
    long nodes = pgas_sum(core, ss->nNodes);
    if (core != 0)
        return 0;
    print_field("pgas_uts: nodes ", nodes);
    print_string("\n");
    return nodes != TREE_NODES;
}
