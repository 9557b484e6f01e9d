/* Self-modifying code. First every core patches the constant in a function of its own and calls it, in
 * a loop. Then, with two cores or more, core 0 rewrites a function that core 1 calls, with a handshake
 * by flags, for several rounds: code written by another core. (A real processor asks core 1 for a
 * serialising instruction between the flag and the call; this machine does not.) The functions lie in
 * the section .patched, whose segment is RWX. Prints how many calls gave the constant just written; exit
 * code 1 when one did not. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define PATCHES 40
#define HAND_OVERS 8
#define CODE_BYTES 16 /* four cores' functions share a line */
#define CONSTANT_OFFSET 1

static struct barrier all_cores;
static volatile long code_version LINE_ALIGNED; /* round whose code core 0 has written */
static volatile long code_used LINE_ALIGNED;    /* round that core 1 has called */
static volatile long right_calls LINE_ALIGNED;

/* mov $constant, %eax; ret; padding: one for each core, then the one that core 0 writes for core 1. */
__asm__(".pushsection .patched, \"awx\", @progbits\n"
        ".balign 64\n"
        ".globl own_code\n"
        ".type own_code, @function\n"
        "own_code:\n"
        ".rept 64\n"
        "  mov $0, %eax\n"
        "  ret\n"
        "  .balign 16, 0xcc\n"
        ".endr\n"
        ".size own_code, . - own_code\n"
        ".balign 64\n"
        ".globl handed_code\n"
        ".type handed_code, @function\n"
        "handed_code:\n"
        "  mov $0, %eax\n"
        "  ret\n"
        "  .balign 64, 0xcc\n"
        ".size handed_code, . - handed_code\n"
        ".popsection\n");

extern unsigned char own_code[];
extern unsigned char handed_code[];

static NOINLINE void patch_constant(unsigned char *code, unsigned constant) {
    *(volatile unsigned *)(code + CONSTANT_OFFSET) = constant;
}

/* Turns `mov $constant, %eax; ret` into `xor` of two halves: another length, another instruction. */
static NOINLINE void rewrite_function(unsigned char *code, unsigned constant) {
    static const unsigned char as_xor[] = {0xb8, 0, 0, 0, 0, 0x35, 0, 0, 0xff, 0xff, 0xc3};
    for (unsigned i = 0; i < sizeof as_xor; i++)
        ((volatile unsigned char *)code)[i] = as_xor[i];
    patch_constant(code, constant ^ 0xffff0000);
}

static unsigned call_code(unsigned char *code) { return ((unsigned (*)(void))code)(); }

static long patch_own_code(long core) {
    unsigned char *code = own_code + core * CODE_BYTES;
    long right = 0;
    for (unsigned patch = 0; patch < PATCHES; patch++) {
        unsigned constant = patch * 0x01010101u + (unsigned)core;
        if (patch == PATCHES / 2)
            rewrite_function(code, constant);
        else
            patch_constant(code, patch < PATCHES / 2 ? constant : constant ^ 0xffff0000);
        right += call_code(code) == constant;
    }
    return right;
}

static void write_code_for_core_1(void) {
    for (long version = 1; version <= HAND_OVERS; version++) {
        unsigned constant = (unsigned)version * 0x10203u;
        if (version <= HAND_OVERS / 2)
            patch_constant(handed_code, constant);
        else
            rewrite_function(handed_code, constant);
        full_fence();
        code_version = version;
        while (code_used != version)
            cpu_pause();
    }
}

static long call_code_of_core_0(void) {
    long right = 0;
    for (long version = 1; version <= HAND_OVERS; version++) {
        while (code_version != version)
            cpu_pause();
        right += call_code(handed_code) == (unsigned)version * 0x10203u;
        code_used = version;
    }
    return right;
}

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    fetch_add(&right_calls, patch_own_code(core));
    barrier_wait(&all_cores, cores);
    if (core == 0 && cores > 1)
        write_code_for_core_1();
    if (core == 1)
        fetch_add(&right_calls, call_code_of_core_0());
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    long calls = PATCHES * cores + (cores > 1 ? HAND_OVERS : 0);
    print_field("smc: calls ", calls);
    print_field(" right ", right_calls);
    print_string("\n");
    return right_calls != calls;
}
