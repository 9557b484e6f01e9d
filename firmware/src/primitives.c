/* Every kind of memory access that the recorder has to get right: all sizes, across lines and pages,
 * SSE, x87, fxsave, string instructions, stack, atomics (with success and failure), and the
 * non-deterministic reads rdtsc, rdtscp, rdrand. Each core runs the same steps in an arena of its own,
 * and all cores beat on shared lines: neighbours' 8-byte slots (false sharing, some slots straddle two
 * lines) and atomically updated words. Prints one checksum that depends neither on timing nor on the
 * number of cores; exit code 1 when cores disagree or a shared word is wrong. */
#include "barrier.h"
#include "console.h"
#include "hash.h"
#include "machine.h"

#define ROUNDS 6
#define ARENA_BYTES (2 * MACHINE_PAGE_BYTES)
#define LINE_EDGE (MACHINE_LINE_BYTES * 3)
#define PAGE_EDGE MACHINE_PAGE_BYTES
#define SLOT_SHIFT 4 /* slots of 8 bytes at 4 mod 8: every eighth one straddles two lines */

static struct barrier all_cores;
static unsigned char arenas[MACHINE_MAX_CORES][ARENA_BYTES] PAGE_ALIGNED;
static unsigned long core_checksums[MACHINE_MAX_CORES];
static unsigned char shared_slots[MACHINE_MAX_CORES * 8 + MACHINE_LINE_BYTES] LINE_ALIGNED;
static volatile long shared_sum LINE_ALIGNED;
static volatile int shared_sum_word;
static volatile long shared_pair[2] LINE_ALIGNED;
static volatile unsigned long shared_bits[MACHINE_MAX_CORES * ROUNDS / 64 + 1] LINE_ALIGNED;
static volatile long cas_failures LINE_ALIGNED;

static inline void fold(unsigned long *sum, unsigned long value) { *sum = hash_mix(*sum, value); }

static NOINLINE void fold_bytes(unsigned long *sum, const unsigned char *bytes, long count) {
    unsigned long word = 0;
    for (long i = 0; i < count; i++)
        word = (word << 7 | word >> 57) ^ bytes[i];
    fold(sum, word);
}

/* Store and load of 1, 2, 4 and 8 bytes at `at`, plain and read-modify-write. */
static NOINLINE void scalar_sizes(unsigned char *at, unsigned long seed, unsigned long *sum) {
    unsigned long byte, word, dword, qword;
    __asm__ volatile("movq %5, (%4)\n\t"
                     "movb %b5, 3(%4)\n\t"
                     "movw %w5, 5(%4)\n\t"
                     "movl %k5, 1(%4)\n\t"
                     "addb $7, 2(%4)\n\t"
                     "incw 4(%4)\n\t"
                     "xorl $0x5a5a5a5a, 2(%4)\n\t"
                     "addq %5, (%4)\n\t"
                     "negq (%4)\n\t"
                     "movzbl 6(%4), %k0\n\t"
                     "movzwl 3(%4), %k1\n\t"
                     "movl 1(%4), %k2\n\t"
                     "movq (%4), %3"
                     : "=&r"(byte), "=&r"(word), "=&r"(dword), "=&r"(qword)
                     : "r"(at), "r"(seed)
                     : "memory", "cc");
    fold(sum, byte ^ word << 8);
    fold(sum, dword);
    fold(sum, qword);
}

/* 16-byte accesses: aligned, unaligned, across a line, across a page; and an SSE addition from memory. */
static NOINLINE void sse_moves(unsigned char *arena, unsigned long *sum) {
    __asm__ volatile("movdqa (%0), %%xmm0\n\t"
                     "movups %%xmm0, 0xb9(%0)\n\t" /* LINE_EDGE - 7 */
                     "movups 0xb9(%0), %%xmm1\n\t"
                     "movups %%xmm1, 0xff5(%0)\n\t" /* PAGE_EDGE - 11 */
                     "movups 0xff5(%0), %%xmm2\n\t"
                     "paddq (%0), %%xmm2\n\t"
                     "movaps %%xmm2, 0x20(%0)\n\t"
                     "movsd 0x20(%0), %%xmm3\n\t"
                     "movss 0x2a(%0), %%xmm4\n\t"
                     "movhps %%xmm2, 0x31(%0)\n\t"
                     "movq %%xmm3, 0x41(%0)\n\t"
                     "movd %%xmm4, 0x4b(%0)\n\t"
                     "movntdq %%xmm1, 0x50(%0)\n\t"
                     :
                     : "r"(arena)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
    fold_bytes(sum, arena + 0x20, 0x40);
    fold_bytes(sum, arena + LINE_EDGE - 8, 18);
    fold_bytes(sum, arena + PAGE_EDGE - 12, 18);
}

/* x87: 4, 8 and 10-byte loads and stores, the 10-byte ones also across a line and a page. */
static NOINLINE void x87_moves(unsigned char *arena, unsigned long *sum) {
    *(float *)(arena + 0x100) = 1.5f;
    *(double *)(arena + 0x108) = -2.75;
    *(int *)(arena + 0x110) = 77;
    __asm__ volatile("fldl 0x108(%0)\n\t"
                     "fadds 0x100(%0)\n\t"
                     "fimull 0x110(%0)\n\t"
                     "fld %%st(0)\n\t"
                     "fstpt 0x13b(%0)\n\t" /* across a line */
                     "fldt 0x13b(%0)\n\t"
                     "faddp\n\t"
                     "fld %%st(0)\n\t"
                     "fstpt 0xffb(%0)\n\t" /* across the page */
                     "fldt 0xffb(%0)\n\t"
                     "fsubrp %%st, %%st(1)\n\t"
                     "fldpi\n\t"
                     "faddp\n\t"
                     "fstl 0x150(%0)\n\t"
                     "fistpl 0x158(%0)\n\t"
                     "fnstcw 0x160(%0)\n\t"
                     "fldcw 0x160(%0)\n\t"
                     :
                     : "r"(arena)
                     : "memory", "st", "st(1)", "st(2)");
    fold_bytes(sum, arena + 0x13b, 10);
    fold_bytes(sum, arena + 0xffb, 10);
    fold_bytes(sum, arena + 0x150, 0x12);
}

/* fxsave, spoil, fxrstor, fxsave again: the x87 and XMM registers must come back. */
static NOINLINE void fxsave_round_trip(unsigned char *arena, unsigned long seed, unsigned long *sum) {
    unsigned char *first = arena + 0x400, *second = arena + 0xf00; /* the second crosses the page */
    __asm__ volatile("movq %2, %%xmm5\n\t"
                     "movq %2, %%xmm15\n\t"
                     "punpcklqdq %%xmm5, %%xmm15\n\t"
                     "fldpi\n\t"
                     "fxsave (%0)\n\t"
                     "pxor %%xmm5, %%xmm5\n\t"
                     "pxor %%xmm15, %%xmm15\n\t"
                     "fstp %%st(0)\n\t"
                     "fxrstor (%0)\n\t"
                     "fxsave (%1)\n\t"
                     "fstp %%st(0)\n\t"
                     :
                     : "r"(first), "r"(second), "r"(seed)
                     : "memory", "xmm5", "xmm15", "st");
    fold_bytes(sum, second, 2);     /* control word; emulators differ on the status word's flags */
    fold_bytes(sum, second + 4, 1); /* tags */
    fold_bytes(sum, second + 24, 4); /* MXCSR */
    fold_bytes(sum, second + 32, 10); /* st(0) */
    fold_bytes(sum, second + 160 + 5 * 16, 8); /* xmm5 */
    fold_bytes(sum, second + 160 + 15 * 16, 16); /* xmm15 */
}

static inline void copy_bytes(void *to, const void *from, unsigned long count) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

/* rep movsb, movsq, stosq, cmpsb and scasb, forwards over lines and pages; one movsb backwards. */
static NOINLINE void string_instructions(unsigned char *arena, unsigned long seed, unsigned long *sum) {
    unsigned char *to = arena + PAGE_EDGE - 24, *from = arena + 0x205, *cursor;
    unsigned long count;
    copy_bytes(to, from, 57);
    cursor = arena + PAGE_EDGE + 0x83;
    count = 9;
    __asm__ volatile("rep stosq" : "+D"(cursor), "+c"(count) : "a"(seed) : "memory");
    cursor = to;
    count = 7;
    __asm__ volatile("rep movsq" : "+D"(cursor), "+S"(from), "+c"(count) : : "memory");
    to[40] ^= 1;
    from = arena + 0x205;
    cursor = to;
    count = 56;
    __asm__ volatile("repe cmpsb" : "+D"(cursor), "+S"(from), "+c"(count) : : "memory", "cc");
    fold(sum, count); /* stopped where the byte differs */
    to[40] ^= 1;
    arena[PAGE_EDGE + 0x8b] = 0x7e;
    cursor = arena + PAGE_EDGE + 0x84;
    count = 40;
    __asm__ volatile("repne scasb" : "+D"(cursor), "+c"(count) : "a"(0x7e) : "memory", "cc");
    fold(sum, count);
    cursor = to + 20;
    from = to + 18;
    count = 16;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(cursor), "+S"(from), "+c"(count) : : "memory");
    fold_bytes(sum, to, 57);
    fold_bytes(sum, arena + PAGE_EDGE + 0x80, 80);
}

/* push and pop of 8 and 2 bytes, pushf, push from and pop to memory, call, enter/leave. */
static NOINLINE void stack_instructions(unsigned char *arena, unsigned long seed, unsigned long *sum) {
    unsigned long popped, flags;
    __asm__ volatile("push %3\n\t"
                     "pushw $0x1234\n\t"
                     "pushq 0x80(%2)\n\t"
                     "popq 0x8d(%2)\n\t"
                     "popw 0x96(%2)\n\t"
                     "pop %0\n\t"
                     "xor %k1, %k1\n\t"
                     "pushfq\n\t"
                     "pop %1\n\t"
                     "enter $32, $0\n\t"
                     "mov %3, -8(%%rbp)\n\t"
                     "leave\n\t"
                     : "=&r"(popped), "=&r"(flags)
                     : "r"(arena), "r"(seed)
                     : "memory", "cc", "rbp");
    fold(sum, popped);
    fold(sum, flags & 0xc5); /* CF PF ZF SF; xor leaves AF undefined */
    fold_bytes(sum, arena + 0x80, 0x20);
}

/* Atomics on this core's own memory, aligned and across a line; both outcomes of compare-and-swap. */
static NOINLINE void private_atomics(unsigned char *arena, unsigned long seed, unsigned long *sum) {
    unsigned char *plain = arena + 0x280, *split = arena + LINE_EDGE + 0x3d;
    unsigned long old = seed, swapped = 3, accumulator, missed, high;
    unsigned char carry, matched, wide_hit, wide_miss;
    *(unsigned long *)plain = seed;
    __asm__ volatile("lock addq $5, (%4)\n\t"
                     "lock xaddq %0, (%4)\n\t"
                     "xchgl %k1, 2(%4)\n\t"
                     "lock incw (%4)\n\t"
                     "lock notq (%5)\n\t"
                     "lock negl (%5)\n\t"
                     "lock subb $9, 4(%4)\n\t"
                     "lock btsq $37, (%4)\n\t"
                     "setc %2\n\t"
                     "lock btrl $3, (%5)\n\t"
                     "btcl $9, (%5)\n\t"
                     "movq (%4), %%rax\n\t"
                     "lock cmpxchgq %6, (%4)\n\t"
                     "sete %3\n\t"
                     : "+&r"(old), "+&r"(swapped), "=&q"(carry), "=&q"(matched)
                     : "r"(plain), "r"(split), "r"(seed ^ 0xff00ff)
                     : "rax", "memory", "cc");
    accumulator = 1; /* not what is there: fails, and reads it into rax */
    __asm__ volatile("lock cmpxchgq %2, (%1)" : "+a"(accumulator) : "r"(plain), "r"(0L) : "memory", "cc");
    missed = accumulator;
    high = *(unsigned long *)(plain + 8);
    __asm__ volatile("lock cmpxchg16b (%4)\n\tsete %0\n\t"
                     "lock cmpxchg16b (%4)\n\tsete %1\n\t"
                     : "=&q"(wide_hit), "=&q"(wide_miss), "+a"(accumulator), "+d"(high)
                     : "r"(plain), "b"(seed + 1), "c"(seed + 2)
                     : "memory", "cc");
    fold(sum, old ^ swapped << 32);
    fold(sum, carry | matched << 1 | wide_hit << 2 | wide_miss << 3);
    fold(sum, missed);
    fold(sum, accumulator ^ high);
    fold_bytes(sum, plain, 16);
    fold_bytes(sum, split, 8);
}

/* The non-deterministic reads: only facts that hold at any time go into the checksum. */
static NOINLINE void time_and_chance(unsigned char *arena, unsigned long *sum) {
    unsigned low, high, aux, ok = 0;
    unsigned long first, second, random = 0;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    first = (unsigned long)high << 32 | low;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
    second = (unsigned long)high << 32 | low;
    for (int attempt = 0; attempt < 16 && !ok; attempt++)
        __asm__ volatile("rdrand %0\n\tadc $0, %1" : "=r"(random), "+r"(ok) : : "cc");
    *(volatile unsigned long *)(arena + 0x300) = first;
    *(volatile unsigned long *)(arena + 0x308) = random ^ machine_read(MACHINE_RANDOM);
    *(volatile unsigned long *)(arena + 0x310) = machine_read(MACHINE_CYCLES) + aux;
    fold(sum, second >= first);
    fold(sum, ok);
}

/* Adds (1, 2) to the shared pair with one cmpxchg16b; counts the attempts that lost a race. */
static NOINLINE void add_to_shared_pair(void) {
    long low = shared_pair[0], high = shared_pair[1];
    unsigned char done;
    for (;;) {
        __asm__ volatile("lock cmpxchg16b (%3)\n\tsete %0"
                         : "=&q"(done), "+a"(low), "+d"(high)
                         : "r"(shared_pair), "b"(low + 1), "c"(high + 2)
                         : "memory", "cc");
        if (done)
            return;
        fetch_add(&cas_failures, 1);
    }
}

/* What all cores do to the same lines; each core's slot is its own, the words are atomic. */
static NOINLINE void shared_lines(long core, long round, unsigned long *sum) {
    volatile unsigned long *slot = (volatile unsigned long *)(shared_slots + SLOT_SHIFT + core * 8);
    long bit = core * ROUNDS + round, seen;
    *slot = *slot + (unsigned long)round + 1;
    fold(sum, *slot);
    fetch_add(&shared_sum, round + 1);
    __asm__ volatile("lock addl $3, %0" : "+m"(shared_sum_word) : : "cc");
    __asm__ volatile("lock btsq %1, %0" : "+m"(shared_bits[0]) : "r"(bit) : "memory", "cc");
    do {
        seen = shared_sum;
        busy_work(4);
    } while (!compare_swap(&shared_sum, seen, seen + 10));
    add_to_shared_pair();
}

static int shared_words_right(long cores) {
    long bits = 0, steps = cores * ROUNDS;
    for (long i = 0; i <= MACHINE_MAX_CORES * ROUNDS / 64; i++)
        for (unsigned long word = shared_bits[i]; word; word &= word - 1)
            bits++;
    return shared_sum == cores * ROUNDS * (ROUNDS + 1) / 2 + 10 * steps && shared_sum_word == 3 * steps &&
           shared_pair[0] == steps && shared_pair[1] == 2 * steps && bits == steps;
}

static void run_round(long core, long round, unsigned long *sum) {
    unsigned char *arena = arenas[core];
    unsigned long seed = hash_mix(1, (unsigned long)round);
    for (long i = 0; i < 64; i++)
        arena[i] = arena[0x200 + i] = (unsigned char)((seed >> (i & 7) * 8) + (unsigned long)i);
    scalar_sizes(arena + 0x240, seed, sum);
    scalar_sizes(arena + LINE_EDGE - 3, seed, sum);
    scalar_sizes(arena + PAGE_EDGE - 5, seed, sum);
    sse_moves(arena, sum);
    x87_moves(arena, sum);
    shared_lines(core, round, sum);
    fxsave_round_trip(arena, seed, sum);
    string_instructions(arena, seed, sum);
    stack_instructions(arena, seed, sum);
    private_atomics(arena, seed, sum);
    time_and_chance(arena, sum);
}

int main(long core, long cores) {
    unsigned long sum = 0;
    barrier_wait(&all_cores, cores);
    for (long round = 0; round < ROUNDS; round++)
        run_round(core, round, &sum);
    core_checksums[core] = sum;
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    long agree = 0;
    for (long i = 0; i < cores; i++)
        agree += core_checksums[i] == sum;
    print_string("primitives: checksum ");
    print_hex(sum);
    print_field(" cores ", agree);
    print_string("\n");
    return agree != cores || !shared_words_right(cores);
}
