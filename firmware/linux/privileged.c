/* Instructions that only a kernel may run: each must give SIGSEGV, and change nothing. */
#include "guest.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;

static void jump_back(int signal) {
    siglongjmp(back, signal);
}

/* Prints the line of one instruction; counts it if it did not fault. */
#define TRY(name, code)                                                                                            \
    do {                                                                                                           \
        int caught = sigsetjmp(back, 1);                                                                           \
        if (!caught) {                                                                                             \
            code;                                                                                                  \
            printf("privileged: %s: NOT REFUSED\n", name);                                                         \
            escaped++;                                                                                             \
        } else if (caught != SIGSEGV) {                                                                            \
            printf("privileged: %s: signal %d\n", name, caught);                                                   \
            escaped++;                                                                                             \
        }                                                                                                          \
    } while (0)

int main(void) {
    static char table[16];
    volatile int escaped = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    CHECK(signal(SIGSEGV, jump_back) == SIG_DFL && signal(SIGILL, jump_back) == SIG_DFL);
    TRY("hlt", __asm__ volatile("hlt"));
    TRY("cli", __asm__ volatile("cli"));
    TRY("in", __asm__ volatile("inb $0x64, %%al" ::: "rax"));
    TRY("out", __asm__ volatile("outb %%al, $0x80" ::: "memory"));
    TRY("mov from cr0", __asm__ volatile("mov %%cr0, %%rax" ::: "rax"));
    TRY("mov to cr3", __asm__ volatile("mov %0, %%cr3" ::"r"(0L) : "memory"));
    TRY("rdmsr", __asm__ volatile("rdmsr" ::"c"(0xc0000080) : "rax", "rdx"));
    TRY("wrmsr", __asm__ volatile("wrmsr" ::"c"(0xc0000100), "a"(0), "d"(0)));
    TRY("lgdt", __asm__ volatile("lgdt %0" ::"m"(table)));
    TRY("invlpg", __asm__ volatile("invlpg %0" ::"m"(table)));
    TRY("wbinvd", __asm__ volatile("wbinvd" ::: "memory"));
    TRY("int 13", __asm__ volatile("int $13" ::: "memory"));
    TRY("mov to ds", __asm__ volatile("mov %0, %%ds" ::"r"(0x1234)));
    printf("privileged: %d not refused\n", escaped);
    return escaped != 0;
}
