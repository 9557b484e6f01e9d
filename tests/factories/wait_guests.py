"""Programs in C and C++ that wait for ever, each in the way that its argument names."""

from __future__ import annotations

C = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER, robust;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t gate;
static sem_t room;
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Looks as glibc's mutex does while a living thread holds it. */
static struct { int word, count, owner; unsigned users; int kind; } mine = {2, 0, 1001, 1, 0};

static void pass(int ms) { poll(0, 0, ms); }
static void never(void) { sem_wait(&room); }
/* Not that of <threads.h>. */
__attribute__((noinline)) static void mtx_lock(int *word) {
    syscall(SYS_futex, word, FUTEX_WAIT, 2, 0, 0, 0);
}
static void *take(void *x) { pthread_mutex_lock(&first); return x; }
static void *write_table(void *x) { pthread_rwlock_wrlock(&table); return x; }
static void *read_table(void *x) { pthread_rwlock_rdlock(&table); return x; }
static void *run_once(void *x) { pthread_once(&once, never); return x; }
static void *wait_mine(void *x) { mtx_lock(&mine.word); return x; }
static void *wait_changed(void *x) {
    pthread_mutex_lock(&robust);
    pthread_cond_wait(&changed, &robust);
    return x;
}
static void *first_second(void *x) {
    pthread_mutex_lock(&first); pass(50); pthread_mutex_lock(&second);
    return x;
}
static void *second_first(void *x) {
    pthread_mutex_lock(&second); pass(50); pthread_mutex_lock(&first);
    return x;
}
static void *destroy(void *x) {
    pthread_mutex_lock(&robust); pass(50); pthread_mutex_destroy(&robust); pause();
    return x;
}
static void *wait_robust(void *x) { pthread_mutex_lock(&robust); never(); return x; }
static void make(int kept, int protocol) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, kept);
    pthread_mutexattr_setprotocol(&kind, protocol);
    pthread_mutex_init(&robust, &kind);
}
static pthread_t start(void *(*what)(void *)) {
    pthread_t thread;
    pthread_create(&thread, 0, what, 0);
    return thread;
}
static int bound(int kind) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(8080)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, kind, 0);
    bind(fd, (struct sockaddr *)&at, sizeof at);
    if (kind == SOCK_STREAM)
        listen(fd, 8);
    return fd;
}
static int blocked_term(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    return signalfd(-1, &set, 0);
}
static void wait_by_epoll(int with_server) {
    int instance = epoll_create1(0), counter = eventfd(0, 0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(instance, EPOLL_CTL_ADD, counter, &event);
    if (with_server)
        epoll_ctl(instance, EPOLL_CTL_ADD, bound(SOCK_STREAM), &event);
    epoll_wait(instance, &event, 1, -1);
}

int main(int n, char **arguments) {
    const char *how = arguments[n - 1];
    char bytes[128];
    int ends[2];
#define IF(name) if (!strcmp(how, name))
    sem_init(&room, 0, 0);
    IF("accept") accept(bound(SOCK_STREAM), 0, 0);
    IF("udp") recv(bound(SOCK_DGRAM), bytes, 8, 0);
    IF("udp_unbound") recv(socket(AF_INET, SOCK_DGRAM, 0), bytes, 8, 0);
    IF("poll") {
        struct pollfd both[2] = {{eventfd(0, 0), POLLIN, 0}, {bound(SOCK_STREAM), POLLIN, 0}};
        poll(both, 2, -1);
    }
    IF("poll_for_writing") {
        struct pollfd server = {bound(SOCK_STREAM), POLLPRI, 0};
        poll(&server, 1, -1);
    }
    IF("select") {
        int fd = bound(SOCK_STREAM);
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        select(fd + 1, &set, 0, 0, 0);
    }
    IF("epoll") wait_by_epoll(1);
    IF("epoll_of_its_own") wait_by_epoll(0);
    IF("signalfd") read(blocked_term(), bytes, 128);
    IF("pause") pause();
    IF("pipe") { pipe(ends); read(ends[0], bytes, 1); }
    IF("pair") { socketpair(AF_UNIX, SOCK_STREAM, 0, ends); read(ends[0], bytes, 1); }
    IF("eventfd") read(eventfd(0, 0), bytes, 8);
    IF("timerfd") read(timerfd_create(CLOCK_MONOTONIC, 0), bytes, 8);
    IF("server_with_workers") { start(wait_changed); accept(bound(SOCK_STREAM), 0, 0); }
    IF("server_with_a_lock") { take(0); start(take); accept(bound(SOCK_STREAM), 0, 0); }
    IF("server_with_a_cycle") {
        start(first_second); start(second_first); start(wait_changed);
        accept(bound(SOCK_STREAM), 0, 0);
    }
    IF("server_with_what_looks_like_a_cycle") { start(wait_mine); accept(bound(SOCK_STREAM), 0, 0); }
    IF("looks_like_a_mutex") { mine.owner = 1000; mtx_lock(&mine.word); }
    IF("ended") { pthread_join(start(take), 0); take(0); }
    IF("join") { take(0); pthread_join(start(take), 0); }
    IF("destroyed") { make(PTHREAD_MUTEX_ROBUST, 0); start(destroy); pass(20); pthread_mutex_lock(&robust); }
    IF("robust") { make(PTHREAD_MUTEX_ROBUST, 0); start(wait_robust); pass(20); pthread_mutex_lock(&robust); }
    IF("inherits") { make(0, PTHREAD_PRIO_INHERIT); start(wait_robust); pass(20);
                     pthread_mutex_lock(&robust); }
    IF("barrier") { pthread_barrier_init(&gate, 0, 3); pthread_barrier_wait(&gate); }
    IF("sem") sem_wait(&room);
    IF("cond") wait_changed(0);
    IF("once") { start(run_once); pass(50); run_once(0); }
    IF("rwlock_ended") { pthread_join(start(write_table), 0); pthread_rwlock_rdlock(&table); }
    IF("rwlock_readers") { read_table(0); start(read_table); pass(50); pthread_rwlock_wrlock(&table); }
    return 0;
}
"""

CXX = r"""
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstring>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>

std::mutex guard;
std::condition_variable changed;
std::latch gone(2);
std::counting_semaphore<8> slots(0);
std::atomic<int> number{3};
std::barrier<> meeting(2);

int main(int n, char **arguments) {
    const char *how = arguments[n - 1];
    auto is = [how](const char *name) { return !std::strcmp(how, name); };
    if (is("mutex")) { std::thread([] { guard.lock(); }).join(); guard.lock(); }
    if (is("condition")) { std::unique_lock<std::mutex> lock(guard); changed.wait(lock); }
    if (is("latch")) gone.wait();
    if (is("semaphore")) slots.acquire();
    if (is("atomic")) number.wait(3);
    if (is("barrier")) meeting.arrive_and_wait();
    if (is("future")) { std::promise<int> promised; promised.get_future().get(); }
    return 0;
}
"""
