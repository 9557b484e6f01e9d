/* Signals that are read from a descriptor: kinds and senders, sets that change, poll and epoll, which thread's
 * signals a read gives; and scheduling as an ordinary program may ask for it. */
#include "guest.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

static sigset_t set;

static struct signalfd_siginfo next(int fd) {
    struct signalfd_siginfo info;
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    return info;
}

static void check_kinds(int fd) {
    struct signalfd_siginfo infos[4];
    CHECK_FAILS(read(fd, infos, sizeof *infos - 1), EINVAL);
    CHECK_FAILS(read(fd, infos, sizeof infos), EAGAIN);
    CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 77}) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 78}) == 0);
    CHECK(raise(SIGUSR2) == 0);
    CHECK(read(fd, infos, sizeof infos) == sizeof infos);
    /* A thread's own come first. */
    CHECK(infos[0].ssi_signo == SIGUSR2 && infos[0].ssi_code == SI_TKILL);
    CHECK(infos[1].ssi_signo == SIGUSR1 && infos[1].ssi_code == SI_USER);
    CHECK(infos[1].ssi_pid == (unsigned)getpid() && infos[1].ssi_uid == getuid());
    CHECK(infos[2].ssi_signo == (unsigned)SIGRTMIN && infos[2].ssi_code == SI_QUEUE && infos[2].ssi_int == 77);
    CHECK(infos[3].ssi_int == 78 && (int)infos[3].ssi_ptr == 78);
    CHECK_FAILS(read(fd, infos, sizeof infos), EAGAIN);
}

static void check_timer(int fd) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 5};
    struct itimerspec once = {.it_value = timespec_of(MILLISECOND)};
    struct pollfd wanted = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && poll(&wanted, 1, 0) == 0);
    CHECK(timer_settime(timer, 0, &once, NULL) == 0);
    CHECK(poll(&wanted, 1, 10000) == 1 && wanted.revents == POLLIN);
    struct signalfd_siginfo info = next(fd);
    CHECK(info.ssi_signo == SIGUSR1 && info.ssi_code == SI_TIMER && info.ssi_int == 5);
    CHECK(timer_delete(timer) == 0);
}

static void *send_later(void *thread) {
    sleep_ms(2);
    CHECK(pthread_kill((pthread_t)thread, SIGUSR2) == 0);
    sleep_ms(2);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    return NULL;
}

/* The signal of another thread is none of ours. */
static void check_threads(int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    int epoll = epoll_create1(0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    pthread_t thread = start(send_later, (void *)pthread_self());
    CHECK(next(fd).ssi_signo == SIGUSR2);
    CHECK(epoll_wait(epoll, &event, 1, 10000) == 1 && event.data.fd == fd && event.events == EPOLLIN);
    join(thread);
    CHECK(next(fd).ssi_signo == SIGUSR1 && epoll_wait(epoll, &event, 1, 0) == 0);
    CHECK(poll(&wanted, 1, 0) == 0 && close(epoll) == 0);
}

static void check_mask(int fd) {
    sigset_t other;
    CHECK_FAILS(signalfd(0, &set, 0), EINVAL);
    CHECK_FAILS(signalfd(-1, &set, 1), EINVAL);
    CHECK_FAILS(signalfd(999, &set, 0), EBADF);
    CHECK(sigemptyset(&other) == 0 && sigaddset(&other, SIGUSR2) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0 && signalfd(fd, &other, 0) == fd);
    struct signalfd_siginfo info;
    CHECK_FAILS(read(fd, &info, sizeof info), EAGAIN);
    CHECK(signalfd(fd, &set, 0) == fd && next(fd).ssi_signo == SIGUSR1);
    CHECK(close(fd) == 0);
}

struct attributes {
    unsigned size, policy;
    unsigned long flags;
    int nice;
    unsigned priority;
    unsigned long runtime, deadline, period;
};

static void check_scheduling(void) {
    struct attributes attributes = {0};
    struct timespec slice;
    CHECK(sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_min(SCHED_RR) == 1);
    CHECK(sched_get_priority_max(SCHED_OTHER) == 0);
    CHECK_FAILS(sched_get_priority_max(77), EINVAL);
    CHECK(sched_rr_get_interval(0, &slice) == 0 && slice.tv_sec == 0);
    CHECK(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0);
    CHECK(attributes.size == sizeof attributes && attributes.policy == SCHED_OTHER && attributes.priority == 0);
    attributes.policy = SCHED_BATCH;
    CHECK(syscall(SYS_sched_setattr, 0, &attributes, 0) == 0);
    attributes.policy = 77;
    CHECK_FAILS(syscall(SYS_sched_setattr, 0, &attributes, 0), EINVAL);
    CHECK_FAILS(syscall(SYS_sched_getattr, 0, &attributes, 8, 0), EINVAL);
}

/* Holes in memory: of a file that is mapped shared they are holes in the file. */
static void check_holes(void) {
    char byte, *place;
    int fd = memfd_create("hole", 0);
    CHECK(fd >= 0 && ftruncate(fd, 3 * 4096) == 0);
    place = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(place != MAP_FAILED);
    memset(place, 'x', 3 * 4096);
    CHECK(madvise(place + 4096, 4096, MADV_REMOVE) == 0);
    CHECK(place[4095] == 'x' && place[4096] == 0 && place[8191] == 0 && place[8192] == 'x');
    CHECK(pread(fd, &byte, 1, 5000) == 1 && byte == 0 && pread(fd, &byte, 1, 9000) == 1 && byte == 'x');
    CHECK(munmap(place, 3 * 4096) == 0 && close(fd) == 0);
    place = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    memset(place, 'x', 8192);
    CHECK(madvise(place, 8192, MADV_DONTNEED) == 0 && place[0] == 'x');
    CHECK(madvise(place, 4096, MADV_REMOVE) == 0 && place[0] == 0 && place[4096] == 'x');
    CHECK(munmap(place, 8192) == 0);
    place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_FAILS(madvise(place, 4096, MADV_REMOVE), EINVAL);
}

int main(void) {
    int fd;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK((fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) >= 0);
    CHECK(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
    check_kinds(fd);
    check_timer(fd);
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    check_threads(fd);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    check_mask(fd);
    check_scheduling();
    check_holes();
    puts(PROGRAM ": kinds, timer, threads, sets; scheduling; holes");
    return 0;
}
