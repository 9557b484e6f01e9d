/* Takes all there is of one thing, says how the kernel put it, and lives on. The thing is the first argument. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 200000

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static int descriptors(int kind) {
    for (int n = 0; n < MOST; n++) {
        int pair[2];
        int got = kind == 'd'   ? open("/dev/null", O_RDONLY)
                  : kind == 's' ? socket(AF_UNIX, SOCK_STREAM, 0)
                  : kind == 'p' ? pipe(pair)
                                : socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        if (got < 0) return errno;
    }
    return 0;
}

static int threads(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int n = 0; n < MOST; n++) {
        pthread_t made;
        int error = pthread_create(&made, &small, sleeper, NULL);
        if (error) return error;
    }
    return 0;
}

static int memory(int touched) {
    for (int n = 0; n < MOST; n++) {
        char *got = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED) return errno;
        if (touched) got[0] = 1;
    }
    return 0;
}

static int mappings(void) {
    for (int n = 0; n < MOST; n++)
        if (mmap(NULL, 4096, n % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return errno;
    return 0;
}

static int file(void) {
    static char block[1 << 20];
    int out = open("/tmp/exhaust.data", O_CREAT | O_WRONLY, 0600);
    if (out < 0) return errno;
    for (int n = 0; n < 3000; n++) {
        ssize_t wrote = write(out, block, sizeof block);
        if (wrote < 0) return errno;
        if (wrote < (ssize_t)sizeof block) return ENOSPC;
    }
    return 0;
}

static int output(void) {
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    for (int n = 0; n < 512; n++)
        if (write(1, block, sizeof block) < 0) return errno;
    return 0;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    int kind = *what;
    int error = kind == 't'   ? threads()
                : kind == 'm' ? memory(0)
                : kind == 'M' ? memory(1)
                : kind == 'a' ? mappings()
                : kind == 'f' ? file()
                : kind == 'o' ? output()
                              : descriptors(kind);
    fprintf(stderr, "%s: %s\n", what, error ? strerror(error) : "no end");
    fflush(NULL);
    _exit(error ? 7 : 0);
}
