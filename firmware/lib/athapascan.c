/* See athapascan.h. Identifier of a request: virtual processor in bits 56 and up, entry point 48-55, thread
 * 24-47, request 0-23, all of the process that made it. The thread is the request's place in the receipt
 * history of its entry point, the request counts those of its process: both are the same in every execution
 * in which requests are received in the same order. */
#include "athapascan.h"

#include "console.h"

#define STACK_BYTES 4096
#define THREAD_MAGIC 0x6174686170617363UL
#define FUTURE_CHAINS 32
#define OUT_OF_STACK 91

struct processor;

/* Lies at the low end of its stack, so that a thread finds its own. */
struct thread {
    unsigned long *sp;
    unsigned long process;  /* the identifier of its request 0 */
    unsigned long requests; /* made so far */
    unsigned long serves;   /* the request it serves */
    struct processor *home;
    struct thread *next;
    const struct at_entry *entry;
    unsigned long in[AT_WORDS];
    unsigned long magic;
};

struct processor {
    unsigned long *sp; /* of its scheduler */
    long number;
    long count;
    struct thread *unused;
    struct thread *first_ready, **last_ready;
    unsigned long accepted; /* what MAIL_ACCEPT was last told */
    unsigned long full;     /* entry points that have as many threads as they may, a bit each */
    unsigned long known;    /* all entry points, a bit each */
    const struct at_entry *entries;
    int (*start)(void);
    int over;
    int exit_code;
    struct at_future *futures[FUTURE_CHAINS];
    unsigned received[AT_ENTRY_POINTS];
    int threads[AT_ENTRY_POINTS];
} LINE_ALIGNED;

static unsigned char stacks[AT_PROCESSORS][AT_THREADS][STACK_BYTES] PAGE_ALIGNED;
static struct processor processors[AT_PROCESSORS];

/* Keeps the registers that a function must keep, and rsp in *from; goes on where `to` was kept. */
void at_switch(unsigned long **from, unsigned long *to);
__asm__(".pushsection .text.at_switch, \"ax\", @progbits\n"
        ".globl at_switch\n"
        ".type at_switch, @function\n"
        "at_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size at_switch, . - at_switch\n"
        ".popsection\n");

static struct thread *self(void) {
    unsigned long sp;
    __asm__ volatile("mov %%rsp, %0" : "=r"(sp));
    return (struct thread *)(sp & -(unsigned long)STACK_BYTES);
}

static void post(long core, int entry, int kind, unsigned long id, int words, const unsigned long *word) {
    machine_write(MACHINE_MAIL_ID, id);
    for (int k = 0; k < words; k++)
        machine_write(MACHINE_MAIL_OUT + 8 * k, word[k]);
    machine_write(MACHINE_MAIL_POST, (unsigned long)core | (unsigned long)entry << 8 |
                                         (unsigned long)kind << 16 | (unsigned long)words << 20);
}

/* -- threads ------------------------------------------------------------------------------------------ */

static void make_ready(struct processor *at, struct thread *thread) {
    thread->next = 0;
    *at->last_ready = thread;
    at->last_ready = &thread->next;
}

/* Gives the processor to its scheduler, which knows when this thread goes on. */
static void leave(struct thread *thread) {
    if (thread->magic != THREAD_MAGIC) {
        print_string("athapascan: a thread ran out of stack\n");
        machine_power_off(OUT_OF_STACK);
    }
    at_switch(&thread->sp, thread->home->sp);
}

static void give_back(struct processor *at, struct thread *thread, int entry) {
    at->threads[entry]--;
    at->full &= ~(1UL << entry);
    thread->next = at->unused;
    at->unused = thread;
}

/* What every thread runs. */
static void thread_body(void) {
    struct thread *thread = self();
    struct processor *at = thread->home;
    unsigned long out[AT_WORDS] = {0, 0, 0, 0};
    int entry = (int)(thread->process >> 48 & 255);
    if (entry == 0) {
        at->exit_code = at->start();
        at->over = 1;
    } else {
        thread->entry->service(thread->in, out);
        post((long)(thread->serves >> 56), entry, MACHINE_MAIL_REPLY, thread->serves, thread->entry->results,
             out);
    }
    give_back(at, thread, entry);
    for (;;)
        leave(thread);
}

static struct thread *new_thread(struct processor *at, int entry) {
    struct thread *thread = at->unused;
    at->unused = thread->next;
    at->threads[entry]++;
    if (entry && at->entries[entry - 1].limit && at->threads[entry] >= at->entries[entry - 1].limit)
        at->full |= 1UL << entry;
    thread->process = (unsigned long)at->number << 56 | (unsigned long)entry << 48 |
                      (unsigned long)at->received[entry]++ << 24;
    thread->requests = 0;
    thread->home = at;
    thread->magic = THREAD_MAGIC;
    thread->entry = entry ? &at->entries[entry - 1] : 0;
    /* Six registers for at_switch, its return address, and a word so that rsp is as after a call. */
    unsigned long *top = (unsigned long *)((unsigned char *)thread + STACK_BYTES) - 1;
    *top = 0;
    *--top = (unsigned long)thread_body;
    thread->sp = top - 6;
    return thread;
}

/* -- futures ------------------------------------------------------------------------------------------ */

static struct at_future **chain_of(struct processor *at, unsigned long request) {
    return &at->futures[(request ^ request >> 24 ^ request >> 48) % FUTURE_CHAINS];
}

static struct at_future *forget_future(struct processor *at, unsigned long request) {
    struct at_future **link = chain_of(at, request);
    while (*link && (*link)->request != request)
        link = &(*link)->next;
    struct at_future *future = *link;
    if (future)
        *link = future->next;
    return future;
}

/* -- the scheduler ------------------------------------------------------------------------------------ */

static void run(struct processor *at, struct thread *thread) { at_switch(&at->sp, thread->sp); }

/* An answer came: keep it, and let whoever waits for it go on. */
static void receive_reply(struct processor *at, unsigned long request, int words) {
    struct at_future *future = forget_future(at, request);
    if (!future)
        return;
    for (int k = 0; k < words; k++)
        future->out[k] = machine_read(MACHINE_MAIL_IN + 8 * k);
    future->come = 1;
    if (future->waiter)
        make_ready(at, future->waiter);
}

/* A request is received: its thread starts at once. */
static void receive_request(struct processor *at, unsigned long request, int entry, int words) {
    struct thread *thread = new_thread(at, entry);
    thread->serves = request;
    for (int k = 0; k < AT_WORDS; k++)
        thread->in[k] = k < words ? machine_read(MACHINE_MAIL_IN + 8 * k) : 0;
    run(at, thread);
}

static void accept_requests(struct processor *at) {
    unsigned long accepted = at->unused ? at->known & ~at->full : 0;
    if (accepted != at->accepted)
        machine_write(MACHINE_MAIL_ACCEPT, at->accepted = accepted);
}

static void run_first_ready(struct processor *at) {
    struct thread *thread = at->first_ready;
    if (!(at->first_ready = thread->next))
        at->last_ready = &at->first_ready;
    run(at, thread);
}

static void take_mail(struct processor *at) {
    accept_requests(at);
    unsigned long head = machine_read(at->first_ready ? MACHINE_MAIL_TAKE : MACHINE_MAIL_AWAIT);
    if (!head)
        return;
    unsigned long request = machine_read(MACHINE_MAIL_FROM);
    int words = (int)(head >> 20 & 15);
    if ((head >> 16 & 15) == MACHINE_MAIL_REPLY)
        receive_reply(at, request, words);
    else
        receive_request(at, request, (int)(head >> 8 & 255), words);
}

static void set_up(struct processor *at, long core, long count, const struct at_entry *entries, int n) {
    at->number = core;
    at->count = count;
    at->entries = entries;
    at->known = ((1UL << n) - 1) << 1;
    at->last_ready = &at->first_ready;
    for (int k = AT_THREADS - 1; k >= 0; k--) {
        struct thread *thread = (struct thread *)stacks[core][k];
        thread->next = at->unused;
        at->unused = thread;
    }
}

int at_run(long core, long cores, const struct at_entry *entries, int n, int (*start)(void)) {
    if (core >= AT_PROCESSORS)
        return 0;
    struct processor *at = &processors[core];
    set_up(at, core, cores < AT_PROCESSORS ? cores : AT_PROCESSORS, entries, n);
    if (core == 0) {
        at->start = start;
        run(at, new_thread(at, 0));
    }
    while (!at->over) {
        take_mail(at);
        if (at->first_ready)
            run_first_ready(at);
    }
    return at->exit_code;
}

/* -- what processes call ------------------------------------------------------------------------------ */

long at_processor(void) { return self()->home->number; }
long at_processors(void) { return self()->home->count; }

void at_spawn(struct at_future *future, long processor, int entry, int words, const unsigned long *in) {
    struct thread *thread = self();
    unsigned long request = thread->process + thread->requests++;
    struct at_future **chain = chain_of(thread->home, request);
    future->request = request;
    future->come = future->seen = 0;
    future->waiter = 0;
    future->next = *chain;
    *chain = future;
    post(processor, entry, MACHINE_MAIL_REQUEST, request, words, in);
}

void at_wait(struct at_future *future) {
    struct thread *thread = self();
    while (!future->come) {
        future->waiter = thread;
        leave(thread);
    }
    future->seen = 1;
}

int at_test(struct at_future *future) {
    struct thread *thread = self();
    if (future->seen)
        return 1;
    make_ready(thread->home, thread);
    leave(thread);
    machine_write(MACHINE_MAIL_TEST, future->request | (future->come ? MACHINE_MAIL_COME : 0));
    unsigned long answer = machine_read(MACHINE_MAIL_TEST);
    if (answer == 0)
        return 0;
    while (answer != 1)
        leave(thread);
    at_wait(future);
    return 1;
}

void at_call(long processor, int entry, int words, const unsigned long *in, unsigned long *out) {
    struct at_future future;
    at_spawn(&future, processor, entry, words, in);
    at_wait(&future);
    for (int k = 0; k < AT_WORDS; k++)
        out[k] = future.out[k];
}
