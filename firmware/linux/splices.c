/* Bytes that go through pipes without a buffer: splice from and to files, pipes and sockets, tee, vmsplice; a
 * thread that copies a stream by splice alone; and every error. */
#include "guest.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BYTES 300000L

static int from[2], to[2];
static char block[BYTES];

static int held(int fd) {
    int n;
    CHECK(ioctl(fd, FIONREAD, &n) == 0);
    return n;
}

static void check_kinds(void) {
    char got[64] = {0};
    int one[2], two[2], ends[2], file = memfd_create("spliced", 0);
    off_t at = 2;
    struct iovec pieces[2] = {{"abc", 3}, {"defg", 4}};
    CHECK(pipe2(one, O_NONBLOCK) == 0 && pipe2(two, O_NONBLOCK) == 0 && file >= 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(vmsplice(one[1], pieces, 2, 0) == 7 && held(one[0]) == 7);
    CHECK(tee(one[0], two[1], 5, 0) == 5 && held(one[0]) == 7 && held(two[0]) == 5);
    CHECK(splice(one[0], NULL, two[1], NULL, 3, 0) == 3 && held(one[0]) == 4 && held(two[0]) == 8);
    CHECK(splice(two[0], NULL, file, NULL, 100, 0) == 8 && pread(file, got, 64, 0) == 8);
    CHECK(memcmp(got, "abcdeabc", 8) == 0 && lseek(file, 0, SEEK_CUR) == 8);
    CHECK(splice(file, &at, two[1], NULL, 4, 0) == 4 && at == 6 && read(two[0], got, 64) == 4);
    CHECK(memcmp(got, "cdea", 4) == 0);
    at = 1;
    CHECK(splice(one[0], NULL, file, &at, 2, 0) == 2 && at == 3 && pread(file, got, 64, 0) == 8);
    CHECK(memcmp(got, "adedeabc", 8) == 0);
    CHECK(splice(one[0], NULL, ends[0], NULL, 100, 0) == 2 && read(ends[1], got, 64) == 2);
    CHECK(memcmp(got, "fg", 2) == 0 && write(ends[1], "hij", 3) == 3);
    CHECK(splice(ends[0], NULL, one[1], NULL, 100, 0) == 3 && read(one[0], got, 64) == 3);
    CHECK(splice(one[0], NULL, file, NULL, 0, 0) == 0);
    CHECK_FAILS(splice(one[0], NULL, file, NULL, 1, 0), EAGAIN);
    CHECK_FAILS(splice(file, NULL, ends[0], NULL, 1, 0), EINVAL);
    CHECK_FAILS(splice(one[0], &at, file, NULL, 1, 0), ESPIPE);
    CHECK_FAILS(splice(one[0], NULL, one[1], NULL, 1, 0), EINVAL);
    CHECK_FAILS(splice(one[1], NULL, two[1], NULL, 1, 0), EBADF);
    CHECK_FAILS(splice(one[0], NULL, two[1], NULL, 1, 0x100), EINVAL);
    CHECK_FAILS(tee(one[0], file, 1, 0), EINVAL);
    CHECK_FAILS(vmsplice(file, pieces, 1, 0), EBADF);
    while (write(one[1], block, 4096) > 0)
        ;
    CHECK_FAILS(vmsplice(one[1], pieces, 1, SPLICE_F_NONBLOCK), EAGAIN);
    CHECK_FAILS(splice(file, &at, one[1], NULL, 1, 0), EAGAIN);
    CHECK(close(one[0]) == 0);
    CHECK_FAILS(splice(file, &at, one[1], NULL, 1, 0), EPIPE);
    CHECK(close(two[1]) == 0 && splice(two[0], NULL, file, NULL, 9, 0) == 0);
}

static void *write_all(void *argument) {
    for (long done = 0, n; done < BYTES; done += n)
        CHECK((n = write(from[1], block + done, (size_t)(BYTES - done))) > 0);
    CHECK(close(from[1]) == 0);
    return argument;
}

static void *pass_on(void *argument) {
    ssize_t n;
    while ((n = splice(from[0], NULL, to[1], NULL, 10000, 0)) > 0)
        ;
    CHECK(n == 0 && close(to[1]) == 0);
    return argument;
}

static void check_stream(void) {
    static char got[5000];
    long done = 0, n;
    for (long i = 0; i < BYTES; i++)
        block[i] = (char)(i % 253);
    CHECK(pipe(from) == 0 && pipe(to) == 0);
    pthread_t writer = start(write_all, NULL), middle = start(pass_on, NULL);
    while ((n = read(to[0], got, sizeof got)) > 0) {
        CHECK(memcmp(got, block + done, (size_t)n) == 0);
        done += n;
    }
    CHECK(n == 0 && done == BYTES);
    join(writer);
    join(middle);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    check_kinds();
    check_stream();
    printf(PROGRAM ": every kind, errors, %ld bytes passed on\n", BYTES);
    return 0;
}
