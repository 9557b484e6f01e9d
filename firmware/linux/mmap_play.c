/* Memory mappings: holes, fixed places, permissions, moving and growing, dropping pages, private and shared
 * mappings of a file, memory beyond a file's end (SIGBUS). Uses the file mmap_play.tmp in the current
 * directory. */
#include "guest.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#define PAGE 4096L
#define FILE_NAME "mmap_play.tmp"

static sigjmp_buf back;
static volatile sig_atomic_t last_signal, last_code;

static void jump_back(int signal, siginfo_t *info, void *context) {
    CHECK(context != NULL);
    last_signal = signal;
    last_code = info->si_code;
    siglongjmp(back, 1);
}

/* The signal that a read (or a write) of a byte there gives, or 0. */
static int touch(volatile char *address, int writes) {
    last_signal = 0;
    if (sigsetjmp(back, 1) == 0) {
        if (writes)
            *address = 1;
        else
            (void)*address;
    }
    return last_signal;
}

static char *map(void *where, long pages, int protection, int flags) {
    char *address = mmap(where, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(address != MAP_FAILED);
    return address;
}

static void check_holes(void) {
    char *area = map(NULL, 8, PROT_READ | PROT_WRITE, 0);
    for (int i = 0; i < 8; i++)
        area[i * PAGE] = 'a' + i;
    CHECK(munmap(area + 2 * PAGE, 2 * PAGE) == 0);
    CHECK(touch(area + 2 * PAGE, 0) == SIGSEGV && last_code == SEGV_MAPERR);
    CHECK(touch(area + 4 * PAGE, 0) == 0 && area[4 * PAGE] == 'e' && area[PAGE] == 'b');
    char *filled = mmap(area + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(filled == area + 2 * PAGE && filled[0] == 0);
    CHECK(mmap(area, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    CHECK(errno == EEXIST);
    CHECK(map(area + 4 * PAGE, 1, PROT_READ, MAP_FIXED) == area + 4 * PAGE && area[4 * PAGE] == 0);
    CHECK(touch(area + 4 * PAGE, 1) == SIGSEGV && last_code == SEGV_ACCERR);
    CHECK(munmap(area, 8 * PAGE) == 0); /* over a hole: no error */
    CHECK_FAILS(munmap(area + 1, PAGE), EINVAL);
    CHECK_FAILS(mprotect(area, PAGE, PROT_READ), ENOMEM);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

static void check_hint_and_protection(void) {
    char *hint = (char *)0x200000000UL, *area = map(hint, 4, PROT_READ | PROT_WRITE, 0);
    CHECK(area == hint); /* a free place that is asked for is given */
    area[PAGE] = 1;
    CHECK(mprotect(area + PAGE, PAGE, PROT_NONE) == 0);
    CHECK(touch(area + PAGE, 0) == SIGSEGV && last_code == SEGV_ACCERR && touch(area, 1) == 0);
    CHECK(mprotect(area + PAGE, PAGE, PROT_READ) == 0 && area[PAGE] == 1);
    CHECK(touch(area + PAGE, 1) == SIGSEGV && touch(area + 2 * PAGE, 1) == 0);
    area[2 * PAGE] = 9;
    CHECK(madvise(area + 2 * PAGE, PAGE, MADV_DONTNEED) == 0 && area[2 * PAGE] == 0);
    CHECK(munmap(area, 4 * PAGE) == 0);
}

static void check_mremap(void) {
    char *area = map(NULL, 6, PROT_READ | PROT_WRITE, 0);
    for (int i = 0; i < 3; i++)
        area[i * PAGE] = 'p' + i;
    CHECK(munmap(area + 3 * PAGE, 3 * PAGE) == 0);
    char *grown = mremap(area, 3 * PAGE, 200 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED && grown[0] == 'p' && grown[2 * PAGE] == 'r' && grown[199 * PAGE] == 0);
    CHECK(mremap(grown, 200 * PAGE, 2 * PAGE, 0) == grown);
    CHECK(touch(grown + 2 * PAGE, 0) == SIGSEGV);
    char *target = map(NULL, 2, PROT_READ, 0);
    CHECK(mremap(grown, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    CHECK(target[PAGE] == 'q' && touch(grown, 0) == SIGSEGV && touch(target, 1) == 0);
    CHECK(munmap(target, 2 * PAGE) == 0);
}

static void check_file_mappings(void) {
    char text[8] = "";
    int file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, PAGE + 100) == 0 && pwrite(file, "private", 7, 0) == 7);
    char *private = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    char *shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(private != MAP_FAILED && shared != MAP_FAILED);
    CHECK(memcmp(private, "private", 8) == 0);
    memcpy(private, "changed", 7);
    CHECK(pread(file, text, 7, 0) == 7 && strcmp(text, "private") == 0 && memcmp(shared, "private", 7) == 0);
    memcpy(shared, "visible", 7);
    memcpy(shared + PAGE, "second", 6);
    CHECK(msync(shared, 2 * PAGE, MS_SYNC) == 0);
    CHECK(pread(file, text, 7, 0) == 7 && strcmp(text, "visible") == 0 && memcmp(private, "changed", 7) == 0);
    CHECK(mprotect(shared + PAGE, PAGE, PROT_READ) == 0 && shared[PAGE + 100] == 0);
    CHECK(touch(shared + PAGE, 1) == SIGSEGV && last_code == SEGV_ACCERR);
    CHECK(touch(shared + 2 * PAGE, 0) == SIGBUS && last_code == BUS_ADRERR); /* wholly beyond the end */
    CHECK(madvise(private, PAGE, MADV_DONTNEED) == 0 && memcmp(private, "visible", 7) == 0);
    CHECK(close(file) == 0);
    memcpy(shared + 8, "late", 4); /* a mapping outlives its descriptor */
    CHECK(munmap(private, 2 * PAGE) == 0 && munmap(shared, 3 * PAGE) == 0);
    file = open(FILE_NAME, O_RDONLY);
    CHECK(pread(file, text, 4, 8) == 4 && memcmp(text, "late", 4) == 0);
    CHECK(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED && errno == EACCES);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, -1, 0) == MAP_FAILED && errno == EBADF);
    CHECK(close(file) == 0 && unlink(FILE_NAME) == 0);
}

static void *write_shared(void *argument) {
    memcpy(argument, "from a thread", 14);
    return NULL;
}

static void check_threads_and_break(void) {
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    join(start(write_shared, shared));
    CHECK(strcmp(shared, "from a thread") == 0);
    char *end = sbrk(0);
    CHECK(sbrk(3 * PAGE) == end && sbrk(0) == end + 3 * PAGE);
    memset(end, 1, 3 * PAGE);
    CHECK(brk(end) == 0 && sbrk(3 * PAGE) == end && end[2 * PAGE] == 0);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = jump_back, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    check_holes();
    check_hint_and_protection();
    check_mremap();
    check_file_mappings();
    check_threads_and_break();
    printf("mmap_play: holes, hints, protection, mremap, files, threads, break\n");
    return 0;
}
