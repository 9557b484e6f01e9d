/* A small preemptive kernel: each core runs two tasks, which the timer interrupt switches. The handler
 * (timer_entry, below) saves every register: the general ones by push, x87 and SSE by fxsave. One task
 * counts in integers, the other in x87, SSE and integers at once, and each checks that its registers
 * survive. After SWITCHES switches the core goes back to main. Core 0 also sends one inter-core
 * interrupt to every other core. Prints switches, inter-core interrupts received and tasks intact; exit
 * code 1 when any is wrong. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define SWITCHES 8
#define PERIOD_CYCLES 4000 /* well above what the handler costs when all its lines miss */
#define STACK_WORDS 512
#define FXSAVE_BYTES 512
#define RFLAGS_INTERRUPTS_ON 0x202

/* What timer_entry leaves on the interrupted stack, from its stack pointer up. */
struct saved_frame {
    unsigned long general[15];
    unsigned long rflags; /* these two are written by the machine */
    unsigned long rip;
};

enum { TASKS = 2, BOOT = TASKS }; /* the context of main comes after those of the tasks */

struct core_kernel {
    struct saved_frame *contexts[TASKS + 1];
    long running;
    long switches;
    volatile long timer_interrupts;
    volatile long ipis;
    volatile long counts[TASKS] LINE_ALIGNED;
    volatile long damaged;
    unsigned long stacks[TASKS][STACK_WORDS] LINE_ALIGNED;
} LINE_ALIGNED;

static struct barrier all_cores;
static struct core_kernel kernels[MACHINE_MAX_CORES];
static volatile long switches_done LINE_ALIGNED;
static volatile long ipis_received LINE_ALIGNED;
static volatile long cores_intact LINE_ALIGNED;

/* The frame of a context says where its fxsave area is: the first aligned 512 bytes below it. */
extern void timer_entry(void);
__asm__(".pushsection .text.timer_entry, \"ax\", @progbits\n"
        ".globl timer_entry\n"
        ".type timer_entry, @function\n"
        "timer_entry:\n"
        "  push %r15; push %r14; push %r13; push %r12; push %r11; push %r10; push %r9; push %r8\n"
        "  push %rbp; push %rdi; push %rsi; push %rdx; push %rcx; push %rbx; push %rax\n"
        "  mov %rsp, %rdi\n"
        "  sub $512, %rsp\n"
        "  and $-16, %rsp\n"
        "  fxsave (%rsp)\n"
        "  cld\n"
        "  call next_context\n"
        "  lea -512(%rax), %rdx\n"
        "  and $-16, %rdx\n"
        "  fxrstor (%rdx)\n"
        "  mov %rax, %rsp\n"
        "  pop %rax; pop %rbx; pop %rcx; pop %rdx; pop %rsi; pop %rdi; pop %rbp\n"
        "  pop %r8; pop %r9; pop %r10; pop %r11; pop %r12; pop %r13; pop %r14; pop %r15\n"
        "  popfq\n"
        "  ret $128\n"
        ".size timer_entry, . - timer_entry\n"
        ".popsection\n");

/* Called by timer_entry with interrupts off: takes note of the cause, picks who runs next. */
__attribute__((used)) struct saved_frame *next_context(struct saved_frame *interrupted) {
    struct core_kernel *kernel = &kernels[machine_read(MACHINE_CORE_ID)];
    unsigned long cause = machine_read(MACHINE_INT_CAUSE);
    if (cause & MACHINE_CAUSE_IPI)
        kernel->ipis++;
    if (!(cause & MACHINE_CAUSE_TIMER))
        return interrupted;
    kernel->timer_interrupts++;
    if (kernel->switches == SWITCHES)
        return interrupted; /* a last tick that was pending when the timer was turned off */
    if (kernel->running != BOOT && kernel->counts[kernel->running] == 0)
        return interrupted; /* not one step yet: the tick came too soon */
    kernel->contexts[kernel->running] = interrupted;
    if (++kernel->switches == SWITCHES) {
        machine_write(MACHINE_TIMER_PERIOD, 0);
        kernel->running = BOOT;
    } else {
        kernel->running = kernel->running == 0 ? 1 : 0;
    }
    return kernel->contexts[kernel->running];
}

static void counting_task(void) {
    struct core_kernel *kernel = &kernels[machine_read(MACHINE_CORE_ID)];
    for (long count = 1;; count++) {
        kernel->counts[0] = count;
        busy_work(50);
        if (count % 8 == 0)
            __asm__ volatile("hlt"); /* the next tick ends it */
        if (kernel->counts[0] != count)
            kernel->damaged = 1;
    }
}

/* Keeps one count in an x87 register, one in xmm7 and one in an integer register. */
static void mixed_task(void) {
    struct core_kernel *kernel = &kernels[machine_read(MACHINE_CORE_ID)];
    long in_memory_x87, in_sse, in_general = 0;
    __asm__ volatile("fldz\n\tpxor %%xmm7, %%xmm7" : : : "xmm7");
    for (;;) {
        in_general++;
        __asm__ volatile("fld1\n\tfaddp\n\tfld %%st(0)\n\tfistpll %0\n\t"
                         "movq %2, %%xmm6\n\tpaddq %%xmm6, %%xmm7\n\tmovq %%xmm7, %1"
                         : "=m"(in_memory_x87), "=r"(in_sse)
                         : "r"(1L)
                         : "xmm6", "xmm7");
        busy_work(50);
        if (in_memory_x87 != in_general || in_sse != in_general)
            kernel->damaged = 1;
        kernel->counts[1] = in_general;
    }
}

/* A frame as timer_entry would have left it, at the task's first instruction. */
static struct saved_frame *new_context(unsigned long *stack, void (*task)(void)) {
    unsigned long top = (unsigned long)(stack + STACK_WORDS) - 16;
    unsigned long frame = top - 8 - MACHINE_RED_ZONE_BYTES - sizeof(struct saved_frame);
    struct saved_frame *context = (struct saved_frame *)frame;
    void *fxsave_area = (void *)((frame - FXSAVE_BYTES) & -16UL);
    context->rflags = RFLAGS_INTERRUPTS_ON;
    context->rip = (unsigned long)task;
    __asm__ volatile("fxsave (%0)" : : "r"(fxsave_area) : "memory");
    return context;
}

/* Interrupts on: from here the ticks take this core through its tasks and back. */
static void run_tasks(struct core_kernel *kernel) {
    kernel->contexts[0] = new_context(kernel->stacks[0], counting_task);
    kernel->contexts[1] = new_context(kernel->stacks[1], mixed_task);
    kernel->running = BOOT;
    machine_write(MACHINE_INT_HANDLER, (unsigned long)timer_entry);
    machine_write(MACHINE_TIMER_PERIOD, PERIOD_CYCLES);
    __asm__ volatile("sti" ::: "memory");
    while (*(volatile long *)&kernel->switches < SWITCHES)
        cpu_pause();
}

int main(long core, long cores) {
    struct core_kernel *kernel = &kernels[core];
    run_tasks(kernel);
    if (core == 0)
        for (long other = 1; other < cores; other++)
            machine_write(MACHINE_IPI_SEND, (unsigned long)other);
    else
        while (kernel->ipis == 0)
            cpu_pause();
    __asm__ volatile("cli" ::: "memory");
    fetch_add(&switches_done, kernel->switches);
    fetch_add(&ipis_received, kernel->ipis);
    fetch_add(&cores_intact, !kernel->damaged && kernel->counts[0] > 0 && kernel->counts[1] > 0);
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("timer: switches ", switches_done);
    print_field(" inter-core interrupts ", ipis_received);
    print_field(" cores intact ", cores_intact);
    print_string("\n");
    return switches_done != SWITCHES * cores || ipis_received != cores - 1 || cores_intact != cores;
}
