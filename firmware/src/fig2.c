/* Figure 2, left, of "Offline symbolic analysis for multi-processor execution replay" (MICRO 2009),
 * rebuilt from the text of sections 4.1 to 4.3. Events on two locations, x (initially 2, finally 1) and
 * y (0, finally 3):
 *
 *   P1 (core 0)                P2 (core 1)            P3 (core 2)
 *   fig2_x1   x: 2 -> 1        fig2_x5   x: 1 -> 1    fig2_y6   y: 0 -> 1
 *   fig2_y2   y: 1 -> 2                               fig2_y7   y: 2 -> 3
 *   fig2_x3   x: 1 -> 2
 *   fig2_x4   x: 2 -> 1
 *
 * Old values of x with its final value {2, 1, 2, 1, 1}, new values {1, 2, 1, 1}. The only order for y is
 * y6, y2, y7; x5 can come between x1 and x3 or last, and both are legal.
 *
 * Nothing but x and y is used, so that this freedom is left: y2 waits until y is 1, y7 until y is 2, and
 * x5 is the read that ends a wait for x to be 1. Waiting adds reads of the value waited away (x5's own
 * label, fig2_wait_y2, fig2_wait_y7); no write is added. With two cores core 1 plays P3, then P2; one
 * core alone plays all seven events in a legal order. Prints the final values; exit code 1 when they are
 * wrong. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

static struct barrier all_cores;
volatile long x LINE_ALIGNED = 2;
volatile long y LINE_ALIGNED = 0;

/* Each event, and each wait, is a piece of code with a symbol of its own. */
#define EVENT(label, instruction) \
    __asm__ volatile(".globl " label "\n.type " label ", @function\n" label ":\n\t" instruction \
                     "\n.size " label ", . - " label "\n" : : : "memory", "cc")

static NOINLINE void fig2_p1(void) {
    EVENT("fig2_x1", "movq $1, x");
    EVENT("fig2_wait_y2", "cmpq $1, y\n\tjne fig2_wait_y2");
    EVENT("fig2_y2", "movq $2, y");
    EVENT("fig2_x3", "movq $2, x");
    EVENT("fig2_x4", "movq $1, x");
}

static NOINLINE void fig2_p2(void) { EVENT("fig2_x5", "cmpq $1, x\n\tjne fig2_x5"); }

static NOINLINE void fig2_p3(void) {
    EVENT("fig2_y6", "movq $1, y");
    EVENT("fig2_wait_y7", "cmpq $2, y\n\tjne fig2_wait_y7");
    EVENT("fig2_y7", "movq $3, y");
}

/* The order y6 x1 y2 x5 x3 x4 y7. */
static NOINLINE void fig2_alone(void) {
    EVENT("fig2_alone_y6", "movq $1, y");
    EVENT("fig2_alone_x1", "movq $1, x");
    EVENT("fig2_alone_y2", "movq $2, y");
    EVENT("fig2_alone_x5", "cmpq $1, x");
    EVENT("fig2_alone_x3", "movq $2, x");
    EVENT("fig2_alone_x4", "movq $1, x");
    EVENT("fig2_alone_y7", "movq $3, y");
}

int main(long core, long cores) {
    barrier_wait(&all_cores, cores);
    if (cores == 1)
        fig2_alone();
    else if (core == 0)
        fig2_p1();
    if (cores > 1 && core == (cores > 2 ? 2 : 1))
        fig2_p3();
    if (core == 1)
        fig2_p2();
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("fig2: x ", x);
    print_field(" y ", y);
    print_string("\n");
    return x != 1 || y != 3;
}
