/* Tests of a few instructions each, for searches through all interleavings: litmus tests, whose exit status is
 * what they read, a bit each; locks, lock-free structures and barriers, which exit with 1 if they went wrong.
 * Argument: one of the names at the end; those that begin with bad_ have a bug. No C library: nothing but the
 * test itself is shared. */
#include <linux/futex.h>

#define READ(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define SWAP(x, v) __atomic_exchange_n(&(x), v, __ATOMIC_SEQ_CST)
#define ADD(x, v) __atomic_fetch_add(&(x), v, __ATOMIC_SEQ_CST)
#define UNTIL(condition) while (!(condition)) __builtin_ia32_pause()

#define FULL_FENCE() __asm__ volatile("mfence" ::: "memory")

#define THREADS 4
/* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, CHILD_CLEARTID */
#define FLAGS 0x250f00

typedef struct { _Alignas(64) long v; } Word;

static Word x, y, count, turn, want[2], next, serving, sense, sequence, left, right;
static long seen[THREADS], wrong;
static Word living[THREADS];
static _Alignas(64) char stacks[THREADS][4096];

static long call(long number, long a, long b, long c, long d) {
    register long r10 __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

static int cas(long *place, long old, long new) {
    return __atomic_compare_exchange_n(place, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void start(int k, void (*body)(void)) {
    long *top = (long *)(stacks[k] + sizeof stacks[k]);
    register long r10 __asm__("r10") = (long)&living[k].v;
    long result;
    *--top = 0;
    *--top = (long)body;
    living[k].v = 1;
    __asm__ volatile(
        "syscall\n test %%rax, %%rax\n jnz 1f\n pop %%rax\n call *%%rax\n xor %%edi, %%edi\n mov $60, %%eax\n syscall\n1:"
        : "=a"(result) : "a"(56), "D"(FLAGS), "S"(top), "d"(0), "r"(r10) : "rcx", "r11", "memory");
}

/* A critical section: an increment that gets lost if two are in it. */
static void critical(void) { WRITE(count.v, READ(count.v) + 1); }
static int both(void) { return count.v != 2; }

/* -- litmus tests -- */
static void sb0(void) { WRITE(x.v, 1); seen[0] = READ(y.v); }
static void sb1(void) { WRITE(y.v, 1); seen[1] = READ(x.v); }
static void mp0(void) { WRITE(x.v, 1); WRITE(y.v, 1); }
static void mp1(void) { seen[0] = READ(y.v); seen[1] = READ(x.v); }
static void lb0(void) { seen[0] = READ(x.v); WRITE(y.v, 1); }
static void lb1(void) { seen[1] = READ(y.v); WRITE(x.v, 1); }
static void write_x(void) { WRITE(x.v, 1); }
static void write_y(void) { WRITE(y.v, 1); }
static void read_xy(void) { seen[0] = READ(x.v); seen[1] = READ(y.v); }
static void read_yx(void) { seen[2] = READ(y.v); seen[3] = READ(x.v); }
static void read_xx(void) { seen[0] = READ(x.v); seen[1] = READ(x.v); }
static void two_writes0(void) { WRITE(x.v, 1); WRITE(y.v, 2); FULL_FENCE(); }
static void two_writes1(void) { WRITE(y.v, 1); WRITE(x.v, 2); FULL_FENCE(); }
static int two_left(void) { return (READ(x.v) - 1) * 2 + (READ(y.v) - 1); }
static int two(void) { return seen[0] * 2 + seen[1]; }
static int four(void) { return two() * 4 + seen[2] * 2 + seen[3]; }

/* -- under TSO: what waits until the store buffer is empty, and what does not -- */
static void fenced0(void) { WRITE(x.v, 1); FULL_FENCE(); seen[0] = READ(y.v); }
static void fenced1(void) { WRITE(y.v, 1); FULL_FENCE(); seen[1] = READ(x.v); }
static void swap0(void) { SWAP(x.v, 1); seen[0] = READ(y.v); }
static void swap1(void) { SWAP(y.v, 1); seen[1] = READ(x.v); }
static void call0(void) { WRITE(x.v, 1); call(39, 0, 0, 0, 0); seen[0] = READ(y.v); }
static void call1(void) { WRITE(y.v, 1); call(39, 0, 0, 0, 0); seen[1] = READ(x.v); }
/* Each is the first who uses a page. */
static _Alignas(4096) struct { volatile long v; char rest[65528]; } first_used[2];
static void page0(void) { WRITE(x.v, 1); first_used[0].v = 1; seen[0] = READ(y.v); }
static void page1(void) { WRITE(y.v, 1); first_used[1].v = 1; seen[1] = READ(x.v); }
/* Each sees its own store before others do. */
static void rfi0(void) { WRITE(x.v, 1); if (READ(x.v) != 1) WRITE(wrong, 8); seen[0] = READ(y.v); }
static void rfi1(void) { WRITE(y.v, 1); if (READ(y.v) != 1) WRITE(wrong, 8); seen[1] = READ(x.v); }
static int two_or_wrong(void) { return two() + wrong; }
/* Sewell and others, section 2.2: the last store to x is the one that its thread saw before another's to y. */
static void n6_0(void) { WRITE(x.v, 1); seen[0] = READ(x.v); seen[1] = READ(y.v); FULL_FENCE(); }
static void n6_1(void) { WRITE(y.v, 2); WRITE(x.v, 2); }
static int n6(void) { return (READ(x.v) == 1) * 4 + (seen[0] == 1) * 2 + (seen[1] == 2); }
/* The process ends while another may have stores buffered. */
static void leave(void) { call(231, READ(x.v) * 2 + READ(y.v), 0, 0, 0); }
/* Who stores, and wakes whoever has said that it waits; the kernel reads memory. */
static void rouse(int fenced) {
    WRITE(x.v, 1);
    if (fenced) FULL_FENCE();
    if (READ(y.v)) call(202, (long)&x.v, FUTEX_WAKE, 1, 0);
}
static void rouse_at_once(void) { rouse(0); }
static void rouse_fenced(void) { rouse(1); }
static void doze(void) { WRITE(y.v, 1); call(202, (long)&x.v, FUTEX_WAIT, 0, 0); }

/* -- locks -- */
static inline void peterson_with(int me, int fenced) {
    WRITE(want[me].v, 1);
    WRITE(turn.v, !me);
    if (fenced) FULL_FENCE();
    UNTIL(!READ(want[!me].v) || READ(turn.v) == me);
    critical();
    WRITE(want[me].v, 0);
}
static void peterson(int me) { peterson_with(me, 0); }
static void fenced_peterson(int me) { peterson_with(me, 1); }
static void bad_peterson(int me) {
    WRITE(turn.v, !me);
    WRITE(want[me].v, 1);
    UNTIL(!READ(want[!me].v) || READ(turn.v) == me);
    critical();
    WRITE(want[me].v, 0);
}
static inline void want_it(int me, int fenced) {
    WRITE(want[me].v, 1);
    if (fenced) FULL_FENCE();
}
static inline void dekker_with(int me, int fenced) {
    want_it(me, fenced);
    while (READ(want[!me].v)) {
        if (READ(turn.v) != me) {
            WRITE(want[me].v, 0);
            UNTIL(READ(turn.v) == me);
            want_it(me, fenced);
        }
    }
    critical();
    WRITE(turn.v, !me);
    WRITE(want[me].v, 0);
}
static void dekker(int me) { dekker_with(me, 0); }
static void fenced_dekker(int me) { dekker_with(me, 1); }
static void bad_dekker(int me) {
    UNTIL(!READ(want[!me].v));
    WRITE(want[me].v, 1);
    critical();
    WRITE(want[me].v, 0);
}
static void ticket(void) {
    long mine = ADD(next.v, 1);
    UNTIL(READ(serving.v) == mine);
    critical();
    WRITE(serving.v, mine + 1);
}
static void bad_ticket(void) {
    long mine = READ(next.v);
    WRITE(next.v, mine + 1);
    UNTIL(READ(serving.v) >= mine);
    critical();
    WRITE(serving.v, mine + 1);
}

typedef struct Waiter { _Alignas(64) struct Waiter *next; long locked; } Waiter;
static Waiter waiters[2];
static _Alignas(64) Waiter *tail;
static void mcs(int me, int late) {
    Waiter *mine = &waiters[me], *before;
    WRITE(mine->next, 0);
    if (!late) WRITE(mine->locked, 1);
    before = SWAP(tail, mine);
    if (before) {
        WRITE(before->next, mine);
        if (late) WRITE(mine->locked, 1);
        UNTIL(!READ(mine->locked));
    }
    critical();
    if (!READ(mine->next)) {
        if (cas((long *)&tail, (long)mine, 0)) return;
        UNTIL(READ(mine->next));
    }
    WRITE(READ(mine->next)->locked, 0);
}

static void lock(long *word) {
    if (cas(word, 0, 1)) return;
    while (SWAP(*word, 2)) call(202, (long)word, FUTEX_WAIT, 2, 0);
}
static void unlock(long *word) {
    if (SWAP(*word, 0) == 2) call(202, (long)word, FUTEX_WAKE, 1, 0);
}
static void eat(long *one, long *other) { lock(one); lock(other); critical(); unlock(other); unlock(one); }

/* -- lock-free structures -- */
typedef struct Node { _Alignas(64) long next; } Node;
static Node nodes[4];
static Word head, last;
static long popped[THREADS][2];
/* A pointer to a node, with a tag above it that counts changes. */
#define TAG (1L << 48)
#define NODE(p) ((Node *)((p) & (TAG - 1)))
static void push(Node *node, long tagged) {
    long top;
    do {
        top = READ(head.v);
        WRITE(node->next, top & (TAG - 1));
    } while (!cas(&head.v, top, (long)node | (tagged ? (top & ~(TAG - 1)) + TAG : 0)));
}
static long pop(long tagged) {
    long top, after;
    do {
        top = READ(head.v);
        if (!NODE(top)) return 0;
        after = READ(NODE(top)->next);
    } while (!cas(&head.v, top, after | (tagged ? (top & ~(TAG - 1)) + TAG : 0)));
    return top & (TAG - 1);
}
static void treiber(int me) { push(&nodes[me], 1); popped[me][0] = pop(1); }
static int two_nodes(void) { return !popped[0][0] || !popped[1][0] || popped[0][0] == popped[1][0]; }
static void stack_of_two(void) { head.v = (long)&nodes[0]; nodes[0].next = (long)&nodes[1]; }
static void aba(long tagged) {
    popped[1][0] = pop(tagged);
    popped[1][1] = pop(tagged);
    if (popped[1][0]) push((Node *)popped[1][0], tagged);
}
static int owned_once(void) {
    long top;
    for (top = head.v & (TAG - 1); top; top = NODE(top)->next)
        if (top == popped[0][0] || top == popped[1][1]) return 1;
    return popped[0][0] && popped[0][0] == popped[1][1];
}

static void queue_of_none(void) { head.v = last.v = (long)&nodes[3]; }
static void enqueue(Node *node, int bad) {
    for (;;) {
        long end = READ(last.v), after = READ(NODE(end)->next);
        if (after) {
            cas(&last.v, end, after);
            continue;
        }
        if (bad) WRITE(NODE(end)->next, (long)node);
        if (bad || cas(&NODE(end)->next, 0, (long)node)) {
            cas(&last.v, end, (long)node);
            return;
        }
    }
}
static long dequeue(void) {
    for (;;) {
        long first = READ(head.v), end = READ(last.v), after = READ(NODE(first)->next);
        if (!after) return 0;
        if (first == end) cas(&last.v, end, after);
        else if (cas(&head.v, first, after)) return after;
    }
}
static int two_queued(void) {
    long n = popped[1][0] != 0;
    while (dequeue()) n++;
    return n != 2;
}

/* -- others -- */
static void seq_write(void) {
    WRITE(sequence.v, READ(sequence.v) + 1);
    WRITE(x.v, 1);
    WRITE(y.v, 1);
    WRITE(sequence.v, READ(sequence.v) + 1);
}
static void seq_read(int bad) {
    long began, a, b;
    do {
        UNTIL(!((began = READ(sequence.v)) & 1));
        a = READ(x.v);
        b = READ(y.v);
    } while (!bad && READ(sequence.v) != began);
    wrong = a != b;
}
static int is_wrong(void) { return wrong; }

static void meet(long mine, int bad) {
    if (ADD(count.v, 1) == 1) {
        if (bad) WRITE(sense.v, mine);
        WRITE(count.v, 0);
        if (!bad) WRITE(sense.v, mine);
    } else {
        UNTIL(READ(sense.v) == mine);
    }
}
static void rendezvous(int me, int bad) {
    Word *mine = me ? &left : &right, *other = me ? &right : &left;
    for (long round = 1; round <= 2; round++) {
        WRITE(mine->v, round);
        meet(round, bad);
        if (READ(other->v) < round) WRITE(wrong, 1);
    }
}

#define BOTH(name, f, ...) \
    static void name##0(void) { f(0, ##__VA_ARGS__); } \
    static void name##1(void) { f(1, ##__VA_ARGS__); }
BOTH(peterson, peterson) BOTH(bad_peterson, bad_peterson) BOTH(dekker, dekker) BOTH(bad_dekker, bad_dekker)
BOTH(fenced_peterson, fenced_peterson) BOTH(fenced_dekker, fenced_dekker)
BOTH(mcs, mcs, 0) BOTH(bad_mcs, mcs, 1) BOTH(treiber, treiber)
BOTH(rendezvous, rendezvous, 0) BOTH(bad_rendezvous, rendezvous, 1)
static void eat_lr(void) { eat(&left.v, &right.v); }
static void eat_rl(void) { eat(&right.v, &left.v); }
static void pop_tagged(void) { popped[0][0] = pop(1); }
static void aba_tagged(void) { aba(1); }
static void pop_bare(void) { popped[0][0] = pop(0); }
static void aba_bare(void) { aba(0); }
static void enqueue0(void) { enqueue(&nodes[0], 0); }
static void enqueue1(void) { enqueue(&nodes[1], 0); popped[1][0] = dequeue(); }
static void bad_enqueue0(void) { enqueue(&nodes[0], 1); }
static void bad_enqueue1(void) { enqueue(&nodes[1], 1); popped[1][0] = dequeue(); }
static void seq_read_good(void) { seq_read(0); }
static void seq_read_bad(void) { seq_read(1); }

/* -- memory that is taken away while another uses it -- */
static _Alignas(4096) struct { long v; char rest[4088]; } page;
static void use_page(void) { seen[0] = READ(page.v); }
static void write_page(void) { WRITE(page.v, 1); seen[0] = READ(y.v); }
static void take_page(void) { call(11, (long)&page, sizeof page, 0, 0); }
static void close_page(void) {
    call(10, (long)&page, sizeof page, 0, 0);
    call(10, (long)&page, sizeof page, 3, 0);
}
static void protect_page(void) { seen[0] = call(10, (long)&page, sizeof page, 1, 0); }
static void lock_page(void) { seen[0] = call(149, (long)&page, sizeof page, 0, 0); }
static int is_done(void) { return seen[0] == 0; }
static int is_refused(void) { return seen[0] != 0; }

static char *heap;
static void prepare_heap(void) { heap = (char *)call(12, 0, 0, 0, 0); }
static void grow_heap(void) { call(12, (long)heap + 8192, 0, 0, 0); }
static void use_heap(void) { heap[4104] = 1; }

static void run_page(void) { ((void (*)(void))&page)(); }
static void prepare_code(void) {
    page.v = 0xc3;
    call(10, (long)&page, sizeof page, 7, 0);
}

/* -- time -- */
static struct { long seconds, nanoseconds; } moment = {0, 2000000}, before, after;
static void sleep_and_read(void) {
    call(35, (long)&moment, 0, 0, 0);
    seen[0] = READ(x.v);
}
static void time_a_sleep(void) {
    call(228, 1, (long)&before, 0, 0);
    call(35, (long)&moment, 0, 0, 0);
    call(228, 1, (long)&after, 0, 0);
}
static int is_early(void) {
    return (after.seconds - before.seconds) * 1000000000 + after.nanoseconds - before.nanoseconds < 2000000;
}
/* Waits for x until the time stamp counter has gone on; every turn begins with the same registers. */
static void wait_with_patience(void) {
    __asm__ volatile(
        "rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n lea 20000(%%rax), %%rsi\n"
        "1: xor %%edx, %%edx\n xor %%eax, %%eax\n mov %1, %%rcx\n test %%rcx, %%rcx\n jnz 2f\n"
        "rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n cmp %%rsi, %%rax\n jbe 1b\n movq $1, %0\n2:"
        : "=m"(wrong) : "m"(x.v) : "rax", "rcx", "rdx", "rsi", "cc");
}
/* A timer that is a file, and goes off while another thread sleeps; longer than what lies between two strata. */
static struct { long seconds, nanoseconds; } long_moment = {0, 5000000};
static struct { long again[2], seconds, nanoseconds; } alarm = {{0, 0}, 0, 1000000};
static long timer;
static void prepare_timer(void) {
    timer = call(283, 1, 2048, 0, 0);
    call(286, timer, 0, (long)&alarm, 0);
}
static void sleep_long(void) { call(35, (long)&long_moment, 0, 0, 0); }
static void read_timer(void) {
    long times = 0;
    seen[0] = call(0, timer, (long)&times, sizeof times, 0) == sizeof times;
}
/* How long a thread has run, behind a loop that waits, and behind a sleep. */
static long counted(void) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (long)high << 32 | low;
}
static void wait_and_count(void) {
    long begin = counted();
    UNTIL(READ(x.v));
    wrong = counted() - begin > 5000;
}
static void sleep_and_count(void) {
    long begin = counted();
    call(35, (long)&moment, 0, 0, 0);
    wrong = counted() - begin > 5000;
}
/* A wait with a time limit, and who wakes it, if it is there. */
static void wait_a_moment(void) { seen[0] = call(202, (long)&x.v, FUTEX_WAIT, 0, (long)&moment); }
static void wake_one(void) { seen[1] = call(202, (long)&x.v, FUTEX_WAKE, 1, 0); }
/* Nobody writes y. */
static void wait_for_y(void) { UNTIL(READ(y.v)); }
static void yield_until_x(void) { while (!READ(x.v)) call(24, 0, 0, 0, 0); }

/* -- a file that is mapped, and changed before or after its page is first used -- */
static long file;
static volatile char *mapped;
static void prepare_file(void) {
    file = call(2, (long)"/tmp/mapped", 0102, 0600, 0);
    call(1, file, (long)"a", 1, 0);
    register long flags __asm__("r10") = 2;
    register long descriptor __asm__("r8") = file, offset __asm__("r9") = 0;
    long at;
    __asm__ volatile("syscall" : "=a"(at) : "a"(9), "D"(0), "S"(4096), "d"(1), "r"(flags), "r"(descriptor),
                     "r"(offset) : "rcx", "r11", "memory");
    mapped = (volatile char *)at;
}
static int has_seen(void) { return seen[0] != 0; }
static void use_file(void) { seen[0] = *mapped == 'b'; }
static void change_file(void) { call(18, file, (long)"b", 1, 0); }
static void cut_file(void) { call(77, file, 0, 0, 0); }

/* -- another thread's affinity, which it has until it ends -- */
static long mask[16];
static void ask_affinity(void) { seen[0] = call(204, call(39, 0, 0, 0, 0) + 1, sizeof mask, (long)mask, 0); }
static void nothing(void) {}
static int is_gone(void) { return seen[0] < 0; }

/* -- what a processor does in parts -- */
static _Alignas(64) char lines[128];
static void write_across(void) { *(volatile long *)(lines + 60) = -1; }
static void read_across(void) { seen[0] = *(volatile long *)(lines + 60); }
static int is_torn(void) { return seen[0] && seen[0] != -1; }

static const struct Test {
    const char *name;
    void (*bodies[THREADS])(void);
    int (*check)(void);
    void (*prepare)(void);
} tests[] = {
    {"sb", {sb0, sb1}, two, 0},
    {"mp", {mp0, mp1}, two, 0},
    {"lb", {lb0, lb1}, two, 0},
    {"corr", {write_x, read_xx}, two, 0},
    {"iriw", {write_x, write_y, read_xy, read_yx}, four, 0},
    {"peterson", {peterson0, peterson1}, both, 0},
    {"2+2w", {two_writes0, two_writes1}, two_left, 0},
    {"sb+fence", {fenced0, fenced1}, two, 0},
    {"sb+swap", {swap0, swap1}, two, 0},
    {"sb+call", {call0, call1}, two, 0},
    {"sb+page", {page0, page1}, two, 0},
    {"sb+rfi", {rfi0, rfi1}, two_or_wrong, 0},
    {"n6", {n6_0, n6_1}, n6, 0},
    {"leave", {leave, mp0}, two, 0},
    {"doze", {rouse_at_once, doze}, is_wrong, 0},
    {"doze+fence", {rouse_fenced, doze}, is_wrong, 0},
    {"peterson+fence", {fenced_peterson0, fenced_peterson1}, both, 0},
    {"dekker+fence", {fenced_dekker0, fenced_dekker1}, both, 0},
    {"store_unmap", {write_page, take_page}, is_wrong, 0},
    {"bad_peterson", {bad_peterson0, bad_peterson1}, both, 0},
    {"dekker", {dekker0, dekker1}, both, 0},
    {"bad_dekker", {bad_dekker0, bad_dekker1}, both, 0},
    {"ticket", {ticket, ticket}, both, 0},
    {"bad_ticket", {bad_ticket, bad_ticket}, both, 0},
    {"mcs", {mcs0, mcs1}, both, 0},
    {"bad_mcs", {bad_mcs0, bad_mcs1}, both, 0},
    {"philosophers", {eat_lr, eat_lr}, both, 0},
    {"bad_philosophers", {eat_lr, eat_rl}, both, 0},
    {"treiber", {treiber0, treiber1}, two_nodes, 0},
    {"aba", {pop_tagged, aba_tagged}, owned_once, stack_of_two},
    {"bad_aba", {pop_bare, aba_bare}, owned_once, stack_of_two},
    {"queue", {enqueue0, enqueue1}, two_queued, queue_of_none},
    {"bad_queue", {bad_enqueue0, bad_enqueue1}, two_queued, queue_of_none},
    {"seqlock", {seq_write, seq_read_good}, is_wrong, 0},
    {"bad_seqlock", {seq_write, seq_read_bad}, is_wrong, 0},
    {"rendezvous", {rendezvous0, rendezvous1}, is_wrong, 0},
    {"bad_rendezvous", {bad_rendezvous0, bad_rendezvous1}, is_wrong, 0},
    {"bad_unmap", {use_page, take_page}, is_wrong, 0},
    {"bad_close", {use_page, close_page}, is_wrong, 0},
    {"bad_protect", {protect_page, take_page}, is_done, 0},
    {"bad_protect_late", {protect_page, take_page}, is_refused, 0},
    {"bad_lock", {lock_page, take_page}, is_done, 0},
    {"bad_lock_late", {lock_page, take_page}, is_refused, 0},
    {"bad_grow", {use_heap, grow_heap}, is_wrong, prepare_heap},
    {"bad_grow_late", {grow_heap, use_heap}, is_wrong, prepare_heap},
    {"bad_code", {run_page, take_page}, is_wrong, prepare_code},
    {"bad_sleep", {sleep_and_read, write_x}, is_done, 0},
    {"bad_sleep_late", {sleep_and_read, write_x}, is_refused, 0},
    {"bad_timer", {read_timer, sleep_long}, is_done, prepare_timer},
    {"bad_timer_late", {read_timer, sleep_long}, is_refused, prepare_timer},
    {"sleep", {time_a_sleep, nothing}, is_early, 0},
    {"bad_patience", {wait_with_patience, write_x}, is_wrong, 0},
    {"bad_count", {wait_and_count, write_x}, is_wrong, 0},
    {"bad_counter", {sleep_and_count, nothing}, is_wrong, 0},
    {"moment", {wait_a_moment, wake_one}, is_wrong, 0},
    {"bad_forgotten", {wait_for_y, write_x}, is_wrong, 0},
    {"bad_mapped", {use_file, change_file}, has_seen, prepare_file},
    {"bad_cut", {use_file, cut_file}, is_wrong, prepare_file},
    {"yield", {yield_until_x, write_x}, is_wrong, 0},
    {"bad_affinity", {ask_affinity, nothing}, is_gone, 0},
    {"torn", {write_across, read_across}, is_torn, 0},
};

static int same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

__attribute__((used)) static void begin(long *stack) {
    const char *name = stack[0] > 1 ? (const char *)stack[2] : "peterson";
    for (unsigned k = 0; k < sizeof tests / sizeof *tests; k++) {
        const struct Test *test = &tests[k];
        if (!same(test->name, name)) continue;
        if (test->prepare) test->prepare();
        for (int n = 1; n < THREADS; n++)
            if (test->bodies[n]) start(n, test->bodies[n]);
        test->bodies[0]();
        for (int n = 1; n < THREADS; n++) UNTIL(!READ(living[n].v));
        call(231, test->check(), 0, 0, 0);
    }
    call(231, 99, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
