/* A seeded bug at shutdown: a journal is shared by two threads and unmapped by the last that lets go of it. The
 * worker lets go and only then writes its last line: SIGSEGV when main lets go in between.
 *
 * GOOD: the worker writes its last line before it lets go. */
#include "guest.h"
#include <sys/mman.h>

#define LINES 10
#define SIZE 4096

struct journal {
    long users, lines;
    volatile long last;
};

static struct journal *journal;

static NOINLINE void write_line(long number) {
    journal->last = number;
    __atomic_fetch_add(&journal->lines, 1, __ATOMIC_SEQ_CST);
}

/* 1 if the journal is gone now. */
static NOINLINE int let_go(void) {
    if (__atomic_sub_fetch(&journal->users, 1, __ATOMIC_SEQ_CST) > 0)
        return 0;
    CHECK(munmap(journal, SIZE) == 0);
    return 1;
}

static NOINLINE void write_lines(void) {
    for (long number = 0; number < LINES; number++)
        write_line(number);
}

static void *work(void *argument) {
    write_lines();
#ifdef GOOD
    write_line(-1);
    let_go();
#else
    if (!let_go())
        write_line(-1); /* the bug: main may have unmapped it meanwhile */
#endif
    return argument;
}

int main(void) {
    journal = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(journal != MAP_FAILED);
    journal->users = 2;
    pthread_t worker = start(work, NULL);
    write_lines();
    let_go();
    join(worker);
    printf(PROGRAM ": closed\n");
    return 0;
}
