/* Signal handlers: what they are told, masks, alternate stacks, flags, the order of queued signals, and that
 * a handler leaves the interrupted code's registers alone. */
#include "guest.h"
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>

#define ALTERNATE 65536

static volatile sig_atomic_t handled, nested, deepest, last_signal;
static volatile siginfo_t last_info; /* volatile: gcc believes that kill() calls no function of ours */
static char alternate[ALTERNATE], *volatile stack_seen;
static volatile int queued[16];
static volatile double clobbered;

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void mask(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

static void note(int signal, siginfo_t *info, void *context) {
    char here;
    CHECK(context != NULL);
    stack_seen = &here;
    last_signal = signal;
    last_info = *info;
    handled++;
}

static void check_information(void) {
    union sigval value = {.sival_int = 1234};
    set(SIGUSR1, note, 0);
    CHECK(raise(SIGUSR1) == 0 && handled == 1 && last_signal == SIGUSR1);
    CHECK(last_info.si_signo == SIGUSR1 && last_info.si_code == SI_TKILL && last_info.si_pid == getpid());
    CHECK(kill(getpid(), SIGUSR1) == 0 && handled == 2 && last_info.si_code == SI_USER);
    CHECK(last_info.si_uid == getuid());
    CHECK(sigqueue(getpid(), SIGUSR1, value) == 0 && handled == 3);
    CHECK(last_info.si_code == SI_QUEUE && last_info.si_value.sival_int == 1234);
    CHECK(kill(getpid(), 0) == 0 && handled == 3);
    CHECK_FAILS(sigaction(SIGKILL, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), EINVAL);
}

static void nest(int signal, siginfo_t *info, void *context) {
    CHECK(info && context);
    nested++;
    deepest = nested > deepest ? nested : deepest;
    if (handled++ < 2)
        raise(signal);
    nested--;
}

/* A handler's own signal is blocked while it runs, unless SA_NODEFER; SA_RESETHAND serves once. */
static void check_flags(void) {
    struct sigaction old;
    handled = deepest = 0;
    set(SIGUSR1, nest, 0);
    raise(SIGUSR1);
    CHECK(handled == 3 && deepest == 1);
    handled = deepest = 0;
    set(SIGUSR1, nest, SA_NODEFER);
    raise(SIGUSR1);
    CHECK(handled == 3 && deepest == 3);
    set(SIGUSR2, note, SA_RESETHAND);
    raise(SIGUSR2);
    CHECK(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR2, SIG_IGN) == SIG_DFL && raise(SIGUSR2) == 0);
    CHECK(raise(SIGCHLD) == 0 && raise(SIGURG) == 0); /* ignored by default */
}

static void check_mask_and_pending(void) {
    sigset_t pending;
    handled = 0;
    set(SIGUSR1, note, 0);
    mask(SIG_BLOCK, SIGUSR1);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) && !sigismember(&pending, SIGUSR2));
    CHECK(handled == 0);
    mask(SIG_UNBLOCK, SIGUSR1);
    CHECK(handled == 1); /* an ordinary signal is pending at most once */
}

static void check_alternate_stack(void) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
    CHECK(sigaltstack(&stack, NULL) == 0);
    set(SIGUSR1, note, SA_ONSTACK);
    raise(SIGUSR1);
    CHECK(stack_seen >= alternate && stack_seen < alternate + ALTERNATE);
    set(SIGUSR1, note, 0);
    raise(SIGUSR1);
    CHECK(stack_seen < alternate || stack_seen >= alternate + ALTERNATE);
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == alternate && old.ss_flags == 0);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
}

static void note_queued(int signal, siginfo_t *info, void *context) {
    CHECK(context != NULL);
    queued[handled++] = (signal - SIGRTMIN) * 10 + info->si_value.sival_int;
}

/* Real-time signals are all kept: the lowest number first, and in the order sent. */
static void check_queue(void) {
    handled = 0;
    for (int i = 1; i <= 3; i++) {
        struct sigaction action = {.sa_sigaction = note_queued, .sa_flags = SA_SIGINFO};
        sigfillset(&action.sa_mask);
        CHECK(sigaction(SIGRTMIN + i, &action, NULL) == 0);
        mask(SIG_BLOCK, SIGRTMIN + i);
    }
    for (int i = 1; i <= 3; i++)
        for (int number = 3; number >= 1; number--)
            CHECK(sigqueue(getpid(), SIGRTMIN + number, (union sigval){.sival_int = i}) == 0);
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
    static const int expected[] = {11, 12, 13, 21, 22, 23, 31, 32, 33};
    CHECK(handled == 9 && memcmp((const void *)queued, expected, sizeof expected) == 0);
}

static void clobber(int signal, siginfo_t *info, void *context) {
    CHECK(signal == SIGALRM && info && context);
    for (int i = 1; i < 40; i++)
        clobbered = clobbered * 0.5 + 1.0 / i;
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm7, %%xmm7; pcmpeqd %%xmm15, %%xmm15; fninit; fldpi; cld"
                     ::: "xmm0", "xmm7", "xmm15", "cc");
    errno = 0;
    handled++;
}

static double work(void) {
    double sum = 0;
    long double wide = 0;
    for (int i = 1; i < 300; i++) {
        sum += 1.0 / i;
        wide += 1.0L / i;
    }
    return sum + (double)wide;
}

/* A timer interrupts a computation some times; its registers must come back as they were. */
static void check_registers(void) {
    struct itimerval every = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    double expected = work();
    handled = 0;
    set(SIGALRM, clobber, 0);
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (handled < 5)
        CHECK(work() == expected);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
}

int main(void) {
    check_information();
    check_flags();
    check_mask_and_pending();
    check_alternate_stack();
    check_queue();
    check_registers();
    printf("signals: information, flags, mask, alternate stack, queue, registers\n");
    return 0;
}
