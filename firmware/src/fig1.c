/* Figure 1 of "Offline symbolic analysis for multi-processor execution replay" (MICRO 2009): two
 * processors, every access to one location x. The figure is a drawing; this is rebuilt from the text of
 * sections 3.1 and 3.3: R1 is P1's first load and returns 1; W2, W5 and W7 are write misses; W7 gets a
 * value that the other processor produced; the final value of x is 3.
 *
 *   order  event        old -> new   in the cache
 *     1    P1  fig1_R1    1 -> 1     miss: first load
 *     2    P2  fig1_W5    1 -> 2     write miss; P1 loses the line
 *     3    P2  fig1_R6    2 -> 2     hit
 *     4    P1  fig1_W2    2 -> 4     write miss; P2 loses the line
 *     5    P1  fig1_R3    4 -> 4     hit
 *     6    P1  fig1_W4    4 -> 5     hit
 *     7    P2  fig1_W7    5 -> 3     write miss; P1 loses the line
 *
 * `hand_off`, in a line of its own, makes this the order of every run: the text gives the misses, and
 * they depend on the order. One core alone plays both parts. Prints what was read; exit code 1 when it
 * is not the above. */
#include "barrier.h"
#include "console.h"
#include "machine.h"


static struct barrier all_cores;
volatile long x LINE_ALIGNED = 1;
static volatile long hand_off LINE_ALIGNED;
static volatile long read_by_p1[2] LINE_ALIGNED;
static volatile long read_by_p2 LINE_ALIGNED;

/* Each event is one instruction with a symbol of its own. */
#define EVENT(label, instruction) \
    ".globl " label "\n.type " label ", @function\n" label ":\n\t" instruction "\n.size " label ", . - " label "\n"
#define READ_X(label, into) __asm__ volatile(EVENT(label, "movq x, %0") : "=r"(into) : : "memory")
#define WRITE_X(label, value) __asm__ volatile(EVENT(label, "movq $" #value ", x") : : : "memory")

static NOINLINE void wait_for(long step) {
    while (hand_off != step)
        cpu_pause();
}

static NOINLINE void p1_first_read(void) {
    long r1;
    READ_X("fig1_R1", r1);
    read_by_p1[0] = r1;
    hand_off = 1;
}

static NOINLINE void p2_write_and_read(void) {
    long r6;
    wait_for(1);
    WRITE_X("fig1_W5", 2);
    READ_X("fig1_R6", r6);
    read_by_p2 = r6;
    hand_off = 2;
}

static NOINLINE void p1_write_read_write(void) {
    long r3;
    wait_for(2);
    WRITE_X("fig1_W2", 4);
    READ_X("fig1_R3", r3);
    WRITE_X("fig1_W4", 5);
    read_by_p1[1] = r3;
    hand_off = 3;
}

static NOINLINE void p2_last_write(void) {
    wait_for(3);
    WRITE_X("fig1_W7", 3);
    hand_off = 4;
}

int main(long core, long cores) {
    long p2 = cores > 1 ? 1 : 0;
    barrier_wait(&all_cores, cores);
    if (core == 0)
        p1_first_read();
    if (core == p2)
        p2_write_and_read();
    if (core == 0)
        p1_write_read_write();
    if (core == p2)
        p2_last_write();
    if (core != 0)
        return 0;
    wait_for(4);
    print_field("fig1: R1 ", read_by_p1[0]);
    print_field(" R6 ", read_by_p2);
    print_field(" R3 ", read_by_p1[1]);
    print_field(" x ", x);
    print_string("\n");
    return read_by_p1[0] != 1 || read_by_p2 != 2 || read_by_p1[1] != 4 || x != 3;
}
