/* Faults that the program handles itself: guard pages opened by the handler, unmapped and read-only memory,
 * code in a data page, a stack overflow, division by zero, an undefined instruction, a breakpoint, an address
 * that no page table can hold; each with its siginfo and machine context. */
#include "guest.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE 4096
#define PAGES 8
#define STACK 65536

static volatile sig_atomic_t faults, wanted_signal, wanted_code;
static char *volatile wanted_address;
static volatile long wanted_rip_step, was_write;
static char *area;
static sigjmp_buf back;

/* The fault that comes next must be this one. */
static void expect(int signal, int code, void *address) {
    wanted_signal = signal;
    wanted_code = code;
    wanted_address = address;
}

static void check_information(int signal, const siginfo_t *info, const ucontext_t *context) {
    CHECK(signal == wanted_signal && info->si_signo == signal && info->si_code == wanted_code);
    CHECK(info->si_addr == wanted_address);
    was_write = (context->uc_mcontext.gregs[REG_ERR] >> 1) & 1;
    faults++;
}

/* Opens the page; the access is then repeated and goes through. */
static void open_page(int signal, siginfo_t *info, void *context) {
    check_information(signal, info, context);
    char *page = (char *)((uintptr_t)info->si_addr & ~(PAGE - 1UL));
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
}

/* Goes on some bytes further. */
static void step_over(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (signal == SIGFPE || signal == SIGILL)
        wanted_address = (char *)registers[REG_RIP];
    check_information(signal, info, context);
    registers[REG_RIP] += wanted_rip_step;
    registers[REG_RAX] = 77;
}

/* Returns from a function that could not be fetched. */
static void return_from_call(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    check_information(signal, info, context);
    CHECK(registers[REG_RIP] == (greg_t)info->si_addr);
    registers[REG_RIP] = *(greg_t *)registers[REG_RSP];
    registers[REG_RSP] += 8;
    registers[REG_RAX] = 78;
}

static void jump_back(int signal, siginfo_t *info, void *context) {
    CHECK(signal == SIGSEGV && info && context);
    faults++;
    siglongjmp(back, 1);
}

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void open_guard_pages(void) {
    set(SIGSEGV, open_page, 0);
    for (int i = 0; i < PAGES; i++) {
        char *address = area + i * PAGE + 100 + i;
        expect(SIGSEGV, SEGV_ACCERR, address);
        if (i % 2) {
            *(volatile char *)address = 'w';
            CHECK(was_write == 1 && *address == 'w');
        } else {
            CHECK(*(volatile char *)address == 0 && was_write == 0);
        }
    }
    CHECK(faults == PAGES);
    CHECK(mprotect(area, PAGE, PROT_READ) == 0);
    expect(SIGSEGV, SEGV_ACCERR, area + 8);
    *(volatile long *)(area + 8) = 5;
    CHECK(faults == PAGES + 1 && was_write == 1 && *(long *)(area + 8) == 5);
}

/* `mov (%rdi), %rax` in three bytes, at a place that the handler can step over. */
static NOINLINE long load(volatile void *address) {
    long value;
    __asm__ volatile(".byte 0x48, 0x8b, 0x07" : "=a"(value) : "D"(address) : "memory");
    return value;
}

static void read_nowhere(void) {
    wanted_rip_step = 3;
    set(SIGSEGV, step_over, 0);
    expect(SIGSEGV, SEGV_MAPERR, NULL);
    CHECK(load(NULL) == 77);
    CHECK(munmap(area + PAGE, PAGE) == 0);
    expect(SIGSEGV, SEGV_MAPERR, area + PAGE + 24);
    CHECK(load(area + PAGE + 24) == 77);
    expect(SIGSEGV, SEGV_MAPERR, area + PAGE); /* the first byte that is missing */
    CHECK(load(area + PAGE - 3) == 77);
    expect(SIGSEGV, SI_KERNEL, NULL);
    CHECK(load((void *)0x8000000000000000UL) == 77);
}

static void run_data(void) {
    long (*data)(void) = (long (*)(void))(uintptr_t)(area + 2 * PAGE);
    set(SIGSEGV, return_from_call, 0);
    expect(SIGSEGV, SEGV_ACCERR, area + 2 * PAGE);
    CHECK(data() == 78);
    expect(SIGSEGV, SEGV_MAPERR, NULL);
    data = NULL;
    __asm__ volatile("" : "+r"(data));
    CHECK(data() == 78);
}

static void trap_and_divide(void) {
    long quotient, remainder;
    set(SIGFPE, step_over, 0);
    set(SIGILL, step_over, 0);
    set(SIGTRAP, step_over, 0);
    expect(SIGFPE, FPE_INTDIV, NULL);
    wanted_rip_step = 3;
    __asm__ volatile(".byte 0x48, 0xf7, 0xf9" : "=a"(quotient), "=d"(remainder) : "a"(6L), "d"(0L), "c"(0L));
    CHECK(quotient == 77);
    expect(SIGFPE, FPE_INTDIV, NULL);
    __asm__ volatile(".byte 0x48, 0xf7, 0xf9" /* the least number by -1 */
                     : "=a"(quotient), "=d"(remainder)
                     : "a"(INT64_MIN), "d"(-1L), "c"(-1L));
    CHECK(quotient == 77);
    expect(SIGILL, ILL_ILLOPN, NULL);
    wanted_rip_step = 2;
    __asm__ volatile("ud2" : "=a"(quotient));
    CHECK(quotient == 77);
    expect(SIGTRAP, SI_KERNEL, NULL);
    wanted_rip_step = 0; /* it is behind the instruction already */
    __asm__ volatile("int3" : "=a"(quotient));
    CHECK(quotient == 77);
}

static NOINLINE long overflow(long depth) {
    volatile char frame[512];
    frame[depth % 512] = 1;
    return depth > 1000000 ? 0 : overflow(depth + 1) + frame[(depth + 7) % 512];
}

/* The handler needs a stack of its own, and leaves by siglongjmp. */
static void *overflow_stack(void *argument) {
    static char alternate[STACK];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
    CHECK(sigaltstack(&stack, NULL) == 0);
    if (sigsetjmp(back, 1) == 0)
        overflow(0);
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == 0);
    return argument;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    area = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    open_guard_pages();
    read_nowhere();
    run_data();
    trap_and_divide();
    set(SIGSEGV, jump_back, SA_ONSTACK);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, overflow_stack, NULL) == 0);
    join(thread);
    printf("segv_handler: handled %d faults\n", faults);
    return 0;
}
