/* Numbered marks, each in a place of its own: a thread makes one after the other by stores, atomics, handlers and
 * calls of every kind, starts a thread and joins it, wakes its neighbour. Any order of the accesses that is true to
 * the threads has each thread's marks in their order, and those of threads that met on the right side of that. */
#include "guest.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>

#define THREADS 5
#define ROUNDS 6
#define STEPS 22
#define BYTES 16

/* marks[t][k]: step k of thread t. The last of a round comes before the first that the next thread in the circle
 * makes in the round after it. */
unsigned char marks[THREADS][ROUNDS * STEPS][BYTES] __attribute__((aligned(4096)));
/* Steps of a child, which lives between the last step but two and the last of a round. */
unsigned char child_marks[THREADS][ROUNDS][2][BYTES] __attribute__((aligned(4096)));

static sem_t token[THREADS];
static __thread unsigned char *from_handler;
static int null_file;

static void on_signal(int number) {
    *from_handler = (unsigned char)number;
}

static void *child(void *argument) {
    unsigned char(*mine)[BYTES] = argument;
    mine[0][0] = 1;
    sched_yield();
    CHECK(write(null_file, mine[1], 1) == 1);
    return NULL;
}

static unsigned char *step(unsigned char (*mine)[BYTES], int *next) {
    return mine[(*next)++];
}

struct files {
    int pipe[2], pair[2], event, poll_set;
};

static void open_files(struct files *f) {
    CHECK(pipe(f->pipe) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, f->pair) == 0);
    CHECK((f->event = eventfd(0, 0)) >= 0);
    CHECK((f->poll_set = epoll_create1(0)) >= 0);
    struct epoll_event wanted = {.events = EPOLLIN};
    CHECK(epoll_ctl(f->poll_set, EPOLL_CTL_ADD, f->event, &wanted) == 0);
}

static void one_round(int self, int round, unsigned char (*mine)[BYTES], int *next, struct files *f) {
    unsigned long one = 1;
    step(mine, next)[0] = 1;
    CHECK(write(null_file, step(mine, next), 1) == 1);
    __atomic_fetch_add(step(mine, next), 1, __ATOMIC_SEQ_CST);
    CHECK(getrandom(step(mine, next), 8, 0) == 8);
    sched_yield();
    step(mine, next)[0] = 1;
    CHECK(clock_gettime(CLOCK_MONOTONIC, (struct timespec *)step(mine, next)) == 0);
    CHECK(write(f->pipe[1], "x", 1) == 1);
    CHECK(read(f->pipe[0], step(mine, next), 1) == 1);
    CHECK(send(f->pair[0], step(mine, next), 1, 0) == 1);
    CHECK(recv(f->pair[1], step(mine, next), 1, 0) == 1);
    from_handler = step(mine, next);
    CHECK(raise(SIGUSR1) == 0);
    step(mine, next)[0] = 1;
    CHECK(write(f->event, &one, 8) == 8);
    struct pollfd *asked = (struct pollfd *)step(mine, next);
    *asked = (struct pollfd){.fd = f->event, .events = POLLIN};
    CHECK(poll(asked, 1, -1) == 1);
    CHECK(epoll_wait(f->poll_set, (struct epoll_event *)step(mine, next), 1, -1) == 1);
    CHECK(read(f->event, step(mine, next), 8) == 8);
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[self] = step(mine, next)[0];
    CHECK(munmap(page, 4096) == 0);
    struct timespec *wait = (struct timespec *)step(mine, next);
    *wait = (struct timespec){0, 2000};
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, wait, NULL) == 0);
    socklen_t size = 4;
    CHECK(getsockopt(f->pair[0], SOL_SOCKET, SO_TYPE, step(mine, next), &size) == 0);
    step(mine, next)[0] = 1;
    __atomic_fetch_or(step(mine, next), 1, __ATOMIC_SEQ_CST);
    CHECK(write(null_file, step(mine, next), 1) == 1);
    pthread_t id = start(child, child_marks[self][round]);
    step(mine, next)[0] = 1;
    join(id);
    step(mine, next)[0] = 1;
}

static void *work(void *argument) {
    int self = (int)(long)argument, next = 0;
    struct files f;
    open_files(&f);
    for (int round = 0; round < ROUNDS; round++) {
        one_round(self, round, marks[self], &next, &f);
        CHECK(next == (round + 1) * STEPS);
        CHECK(sem_post(&token[(self + 1) % THREADS]) == 0);
        CHECK(sem_wait(&token[self]) == 0);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK((null_file = open("/dev/null", O_RDWR)) >= 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(sem_init(&token[t], 0, 0) == 0);
    run_threads(THREADS, work);
    printf("thread_order: %d threads, %d marks each\n", THREADS, ROUNDS * STEPS);
    return 0;
}
