/* System calls with arguments out of a hat: odd numbers, bad addresses, descriptors of every kind. The kernel
 * must survive and answer each somehow. For an emulated kernel only: with real files it could do harm, so it
 * does nothing unless its argument is "sandboxed". argv[2]: the seed. A timer interrupts calls that wait. */
#include "guest.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#define CALLS 3000
#define ROOM 65536

/* Calls that end the program, leave it, or take its memory, signals or descriptors from under it, or that wait
 * with the timer's signal blocked. */
static const long excluded[] = {
    SYS_exit,         SYS_exit_group,      SYS_fork,           SYS_vfork,          SYS_clone,        SYS_clone3,
    SYS_execve,       SYS_execveat,        SYS_kill,           SYS_tkill,          SYS_tgkill,       SYS_rt_sigqueueinfo,
    SYS_rt_sigreturn, SYS_rt_tgsigqueueinfo, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigsuspend, SYS_munmap,
    SYS_mprotect,     SYS_mremap,          SYS_mmap,           SYS_brk,            SYS_shmat,        SYS_madvise,
    SYS_arch_prctl,   SYS_setitimer,       SYS_alarm,          SYS_timer_create,   SYS_timer_settime, SYS_ptrace,
    SYS_close_range,  SYS_pkey_mprotect,   SYS_set_robust_list, SYS_set_tid_address, SYS_seccomp,    SYS_prctl,
    SYS_setrlimit,    SYS_prlimit64,       SYS_close,          SYS_dup2,           SYS_dup3,         SYS_remap_file_pages,
    SYS_sigaltstack,  SYS_pidfd_send_signal, SYS_process_vm_writev, SYS_modify_ldt, SYS_rseq,        SYS_shutdown,
    SYS_ppoll,        SYS_pselect6,        SYS_epoll_pwait,    SYS_epoll_pwait2, 335 /* uretprobe: SIGILL */, 336,
};

static unsigned long seed = 1;
static char *room;
static volatile long interruptions;

static void note(int signal) {
    interruptions += signal == SIGALRM;
}

static int may_call(long number) {
    for (unsigned i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if (excluded[i] == number)
            return 0;
    return 1;
}

/* A number, an address, a descriptor: whatever a call may take for an argument. */
static long argument(void) {
    static const long odd[] = {0, 1, -1, 2, 8, 4096, 0x7fffffff, 0x80000000L, 0xffffffffL, 1L << 62, -4096, 1L << 63};
    unsigned long r = next_random(&seed);
    switch (r % 8) {
    case 0:
        return odd[(r >> 8) % (sizeof odd / sizeof *odd)];
    case 1:
        return (long)(room + (r >> 8) % ROOM);
    case 2:
        return (long)(room + ROOM - (r >> 8) % 9); /* at the edge of what is mapped */
    case 3:
        return (r >> 8) % 5000;
    case 4:
        return (long)room; /* a path */
    default:
        return (r >> 8) % 24; /* a descriptor, a flag, a command */
    }
}

static void open_some_of_everything(void) {
    int ends[2];
    CHECK(open("/", O_RDONLY) >= 0 && open("fuzz.tmp", O_RDWR | O_CREAT, 0600) >= 0);
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0 && socket(AF_INET, SOCK_DGRAM, 0) >= 0);
    CHECK(eventfd(1, 0) >= 0 && epoll_create1(0) >= 0 && timerfd_create(CLOCK_MONOTONIC, 0) >= 0);
}

int main(int count, char **arguments) {
    struct itimerval often = {{0, 3000}, {0, 3000}};
    struct sigaction action = {.sa_handler = note};
    if (count < 2 || strcmp(arguments[1], "sandboxed") != 0) {
        printf("fuzz_calls: only in a sandbox\n");
        return 2;
    }
    seed = count > 2 ? strtoul(arguments[2], NULL, 0) * 2 + 1 : 1;
    room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED && mprotect(room + ROOM, ROOM, PROT_NONE) == 0);
    for (long i = 0; i < ROOM; i++)
        room[i] = (char)next_random(&seed);
    strcpy(room, "fuzz.tmp");
    open_some_of_everything();
    CHECK(signal(SIGPIPE, SIG_IGN) == SIG_DFL);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < CALLS; i++) {
        long number = next_random(&seed) % 460;
        if (number > 2 && may_call(number))
            syscall(number, argument(), argument(), argument(), argument(), argument(), argument());
        if (i % 100 == 0)
            strcpy(room, "fuzz.tmp");
    }
    CHECK(getpid() > 0);
    printf("fuzz_calls: survived\n");
    return 0;
}
