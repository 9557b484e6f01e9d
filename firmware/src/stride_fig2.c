/* Figure 2 of the Stride paper (ICSE 2012), rebuilt from the text of section II: four threads, nine accesses
 * to the shared variables x and y, numbered as the paper numbers its lines. x and y begin as 0.
 *
 *   thread 1 (core 0)    thread 2 (core 1)    thread 3 (core 2)    thread 4 (core 3)
 *   w1  y = 1            w4  y = 2            r6  read y           r8  read x
 *   w2  x = 1            w5  y = 3            r7  read x           r9  read y
 *   w3  x = 2
 *
 * In the paper's schedule r6 reads what w5 wrote, r7 w3's, r8 w2's and r9 w4's (Figure 3): 3, 2, 1, 2. The
 * version of y is looked at after w5, so that the bound of r9 is 3 though it read version 2.
 *
 * Nothing waits for anything: an explicit schedule brings the order about. With fewer cores than threads a
 * core runs its threads one after the other. Prints what the four reads saw. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define THREADS 4

static struct barrier all_cores;
volatile long x LINE_ALIGNED;
volatile long y LINE_ALIGNED;
static volatile long saw_r6, saw_r7, saw_r8, saw_r9;

/* Each access is one instruction with a symbol of its own. */
#define WRITE(label, instruction) \
    __asm__ volatile(".globl " label "\n.type " label ", @function\n" label ":\n\t" instruction \
                     "\n.size " label ", . - " label "\n" : : : "memory")
#define READ(label, variable, into) \
    __asm__ volatile(".globl " label "\n.type " label ", @function\n" label ":\n\tmovq " variable ", %0" \
                     "\n.size " label ", . - " label "\n" : "=r"(into) : : "memory")

static NOINLINE void thread_1(void) {
    WRITE("stride_w1", "movq $1, y");
    WRITE("stride_w2", "movq $1, x");
    WRITE("stride_w3", "movq $2, x");
}

static NOINLINE void thread_2(void) {
    WRITE("stride_w4", "movq $2, y");
    WRITE("stride_w5", "movq $3, y");
}

static NOINLINE void thread_3(void) {
    long first, second;
    READ("stride_r6", "y", first);
    READ("stride_r7", "x", second);
    saw_r6 = first;
    saw_r7 = second;
}

static NOINLINE void thread_4(void) {
    long first, second;
    READ("stride_r8", "x", first);
    READ("stride_r9", "y", second);
    saw_r8 = first;
    saw_r9 = second;
}

int main(long core, long cores) {
    for (long thread = core; thread < THREADS; thread += cores) {
        if (thread == 0)
            thread_1();
        if (thread == 1)
            thread_2();
        if (thread == 2)
            thread_3();
        if (thread == 3)
            thread_4();
    }
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("stride_fig2: r6 ", saw_r6);
    print_field(" r7 ", saw_r7);
    print_field(" r8 ", saw_r8);
    print_field(" r9 ", saw_r9);
    print_string("\n");
    return 0;
}
