/* Waiting for descriptors: pipes between threads, eventfd, timerfd, poll, select, and epoll level- and
 * edge-triggered, once, and from several threads. */
#include "guest.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/timerfd.h>

#define BYTES 200000L
#define EVENTS 30

static int data[2], event, epoll;

static void *write_much(void *argument) {
    static char block[5000];
    for (long sent = 0; sent < BYTES;) {
        for (int i = 0; i < 5000; i++)
            block[i] = (char)((sent + i) % 251);
        long n = write(data[1], block, 5000);
        CHECK(n > 0);
        sent += n;
    }
    CHECK(close(data[1]) == 0);
    return argument;
}

/* More than a pipe holds: both sides must wait. */
static void check_pipe(void) {
    static char block[3000];
    long got = 0, n;
    CHECK(pipe(data) == 0);
    pthread_t writer = start(write_much, NULL);
    while ((n = read(data[0], block, sizeof block)) > 0)
        for (long i = 0; i < n; i++, got++)
            CHECK(block[i] == (char)(got % 251));
    CHECK(n == 0 && got == BYTES);
    join(writer);
    CHECK(close(data[0]) == 0 && pipe2(data, O_NONBLOCK) == 0);
    CHECK_FAILS(read(data[0], block, 1), EAGAIN);
    CHECK(write(data[1], block, 10) == 10 && ioctl(data[0], FIONREAD, &n) == 0 && (int)n == 10);
    CHECK(close(data[0]) == 0);
    CHECK_FAILS(write(data[1], block, 1), EPIPE);
    CHECK(close(data[1]) == 0);
}

static void *add_events(void *argument) {
    for (int i = 0; i < EVENTS; i++)
        CHECK(eventfd_write(event, (long)argument + 1) == 0);
    return NULL;
}

static void check_eventfd(void) {
    eventfd_t value, sum = 0;
    CHECK((event = eventfd(0, 0)) >= 0);
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        threads[i] = start(add_events, (void *)i);
    while (sum < 6 * EVENTS) {
        CHECK(eventfd_read(event, &value) == 0 && value > 0);
        sum += value;
    }
    CHECK(sum == 6 * EVENTS);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    CHECK(close(event) == 0 && (event = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK)) >= 0);
    CHECK(eventfd_read(event, &value) == 0 && value == 1 && eventfd_read(event, &value) == 0);
    CHECK_FAILS(eventfd_read(event, &value), EAGAIN);
}

static void *write_later(void *argument) {
    sleep_ms(3);
    CHECK(write(data[1], "now", 3) == 3);
    return argument;
}

static void check_poll(void) {
    char text[8];
    CHECK(pipe(data) == 0);
    struct pollfd polled[3] = {{data[0], POLLIN, 0}, {data[1], POLLOUT, 0}, {999, POLLIN, 0}};
    CHECK(poll(polled, 3, -1) == 2 && polled[0].revents == 0);
    CHECK(polled[1].revents == POLLOUT && polled[2].revents == POLLNVAL);
    CHECK(poll(polled, 1, 5) == 0);
    pthread_t writer = start(write_later, NULL);
    CHECK(poll(polled, 1, -1) == 1 && polled[0].revents == POLLIN && read(data[0], text, 8) == 3);
    join(writer);
    writer = start(write_later, NULL);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(data[0], &set);
    CHECK(select(data[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(data[0], &set));
    join(writer);
    CHECK(read(data[0], text, 8) == 3 && close(data[1]) == 0);
    CHECK(poll(polled, 1, -1) == 1 && polled[0].revents == POLLHUP && close(data[0]) == 0);
}

static int wait_epoll(int milliseconds, struct epoll_event *got) {
    return epoll_wait(epoll, got, 4, milliseconds);
}

static void check_epoll(void) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 0x123456789abcUL}, got[4];
    char byte;
    CHECK((epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0 && pipe(data) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, data[0], &wanted) == 0 && wait_epoll(0, got) == 0);
    CHECK_FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, data[0], &wanted), EEXIST);
    CHECK(write(data[1], "xyz", 3) == 3);
    for (int i = 0; i < 2; i++) /* level: as long as it holds */
        CHECK(wait_epoll(-1, got) == 1 && got[0].events == EPOLLIN && got[0].data.u64 == 0x123456789abcUL);
    wanted.events = EPOLLIN | EPOLLET;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, data[0], &wanted) == 0);
    CHECK(wait_epoll(-1, got) == 1 && wait_epoll(0, got) == 0); /* edge: once, until more comes */
    CHECK(write(data[1], "!", 1) == 1 && wait_epoll(-1, got) == 1 && wait_epoll(0, got) == 0);
    wanted.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, data[0], &wanted) == 0);
    CHECK(wait_epoll(-1, got) == 1 && write(data[1], "!", 1) == 1 && wait_epoll(0, got) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, data[0], NULL) == 0 && read(data[0], &byte, 1) == 1);
    CHECK_FAILS(epoll_ctl(epoll, EPOLL_CTL_DEL, data[0], NULL), ENOENT);
}

static void *serve_events(void *argument) {
    struct epoll_event got[4];
    long served = 0, value;
    for (;;) {
        CHECK(wait_epoll(-1, got) == 1);
        if (got[0].data.u32 == 2)
            return (void *)served;
        if (read(event, &value, 8) == 8)
            served++;
        else
            CHECK(errno == EAGAIN);
    }
    return argument;
}

/* Three threads wait in one epoll; each event goes to one of them, the end to all. */
static void check_epoll_threads(void) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = 1}, end = {.events = EPOLLIN, .data.u32 = 2};
    struct pollfd polled = {.fd = event, .events = POLLIN};
    pthread_t threads[3];
    long served = 0;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted) == 0);
    for (int i = 0; i < 3; i++)
        threads[i] = start(serve_events, NULL);
    for (int i = 0; i < EVENTS; i++)
        CHECK(eventfd_write(event, 1) == 0);
    while (poll(&polled, 1, 0) != 0) /* until all are taken */
        sleep_ms(1);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, event, NULL) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, data[0], &end) == 0);
    for (int i = 0; i < 3; i++)
        served += (long)join(threads[i]);
    CHECK(served == EVENTS);
}

static void check_timerfd(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec every = {timespec_of(2 * MILLISECOND), timespec_of(3 * MILLISECOND)}, left;
    long before = now(CLOCK_MONOTONIC), fired = 0;
    unsigned long value;
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &every, NULL) == 0);
    CHECK(timerfd_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 2 * MILLISECOND);
    while (fired < 4) {
        CHECK(read(timer, &value, 8) == 8 && value >= 1);
        fired += value;
    }
    CHECK(now(CLOCK_MONOTONIC) - before >= 9 * MILLISECOND && close(timer) == 0);
}

int main(void) {
    CHECK(signal(SIGPIPE, SIG_IGN) == SIG_DFL);
    check_pipe();
    check_eventfd();
    check_poll();
    check_epoll();
    check_epoll_threads();
    check_timerfd();
    printf("pipes_poll: pipe %ld bytes, eventfd, poll, select, epoll %d events, timerfd\n", BYTES, EVENTS);
    return 0;
}
