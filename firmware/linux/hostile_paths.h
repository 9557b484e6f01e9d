/* The tricks of `hostile` that try to reach a file which the guest was not given. Each takes the absolute path
 * of the file and returns a descriptor for it, or -1. They are made in the current directory, which must be
 * writable. Nothing here changes a file that it did not make. */
#ifndef HOSTILE_PATHS_H
#define HOSTILE_PATHS_H

#include "guest.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define UPWARDS "../../../../../../../../../../../../../../../../../../../.."

static char path[PATH_MAX];

/* Open what a format makes of the target. */
static int open_as(const char *format, const char *target) {
    snprintf(path, sizeof path, format, target);
    return open(path, O_RDONLY);
}

static int directly(const char *target) {
    return open(target, O_RDONLY);
}

static int by_odd_slashes(const char *target) {
    int file = open_as("//.//./%s", target);
    return file >= 0 ? file : open_as("/../../.././/%s", target);
}

static int upwards(const char *target) {
    return open_as(UPWARDS "%s", target);
}

static int upwards_from_a_missing_directory(const char *target) {
    return open_as("no-such-directory/../" UPWARDS "%s", target);
}

static int by_symbolic_link(const char *target) {
    unlink("hostile-link");
    return symlink(target, "hostile-link") == 0 ? open("hostile-link", O_RDONLY) : -1;
}

static int by_link_to_the_root(const char *target) {
    unlink("hostile-root");
    return symlink("/", "hostile-root") == 0 ? open_as("hostile-root%s", target) : -1;
}

static int by_link_upwards(const char *target) {
    unlink("hostile-up");
    return symlink(UPWARDS, "hostile-up") == 0 ? open_as("hostile-up%s", target) : -1;
}

static int by_chain_of_links(const char *target) {
    unlink("hostile-first");
    unlink("hostile-second");
    if (symlink("hostile-second/..", "hostile-first") != 0 || symlink(UPWARDS "/proc", "hostile-second") != 0)
        return -1;
    return open_as("hostile-first%s", target);
}

static int by_hard_link(const char *target) {
    unlink("hostile-hard");
    return link(target, "hostile-hard") == 0 ? open("hostile-hard", O_RDONLY) : -1;
}

static int by_proc_self_root(const char *target) {
    static const char *const formats[] = {
        "/proc/self/root%s",     "/proc/self/root/../../..%s", "/proc/thread-self/root%s", "/proc/self/cwd/" UPWARDS "%s",
        "/proc/self/exe/../" UPWARDS "%s", "/proc/1/root%s", "/proc/1/cwd/" UPWARDS "%s", "/dev/fd/../root%s",
        "/proc/self/task/../root%s"};
    for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
        int file = open_as(formats[i], target);
        if (file >= 0)
            return file;
    }
    return -1;
}

static int by_proc_self_fd(const char *target) {
    int root = open("/", O_PATH | O_DIRECTORY), file = -1;
    if (root < 0)
        return -1;
    static const char *const formats[] = {"/proc/self/fd/%d%s", "/dev/fd/%d/.." "%s", "/proc/self/fd/%d/../../..%s"};
    for (unsigned i = 0; i < 3 && file < 0; i++) {
        snprintf(path, sizeof path, formats[i], root, target);
        file = open(path, O_RDONLY);
    }
    close(root);
    return file;
}

/* openat with descriptors of all kinds: a directory, the root, a file, standard input, nonsense. */
static int by_descriptor(const char *target) {
    int bases[] = {open(".", O_RDONLY), open("/", O_PATH), open("/proc/self/exe", O_RDONLY), 0, AT_FDCWD, -1, 99999};
    int file = -1;
    for (unsigned i = 0; i < sizeof bases / sizeof *bases && file < 0; i++) {
        snprintf(path, sizeof path, UPWARDS "%s", target);
        file = openat(bases[i], path, O_RDONLY);
        if (file < 0)
            file = openat(bases[i], target + 1, O_RDONLY);
    }
    for (int i = 0; i < 3; i++)
        close(bases[i]);
    return file;
}

static int by_openat2(const char *target) {
    struct open_how how = {.flags = O_RDONLY}, in_root = {.flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT};
    int file = syscall(SYS_openat2, AT_FDCWD, target, &how, sizeof how);
    if (file >= 0)
        return file;
    int root = open("/", O_RDONLY);
    file = syscall(SYS_openat2, root, target, &in_root, sizeof in_root);
    close(root);
    return file;
}

static int by_path_descriptor(const char *target) {
    int found = open(target, O_PATH);
    if (found < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", found);
    int file = open(path, O_RDONLY);
    return file >= 0 ? file : found; /* to have found it is enough */
}

static int by_changed_directory(const char *target) {
    int here = open(".", O_RDONLY), file = -1;
    if (chdir("/") == 0 && chdir("..") == 0)
        file = open(target + 1, O_RDONLY);
    if (file < 0 && chdir("/proc/self/root") == 0 && chdir("..") == 0)
        file = open(target + 1, O_RDONLY);
    CHECK(fchdir(here) == 0 && close(here) == 0);
    return file;
}

/* The classic way out of a chroot: a descriptor kept outside. */
static int by_chroot(const char *target) {
    int here = open(".", O_RDONLY), file = -1;
    mkdir("hostile-jail", 0700);
    if (chroot("hostile-jail") == 0) {
        if (fchdir(here) == 0)
            for (int i = 0; i < 20 && chdir("..") == 0; i++)
                ;
        file = chroot(".") == 0 ? open(target, O_RDONLY) : -1;
        if (file < 0)
            CHECK(fchdir(here) == 0);
    }
    close(here);
    return file;
}

static int by_handle(const char *target) {
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } handle = {.head.handle_bytes = 128};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, target, &handle.head, &mount_id, 0) != 0) {
        handle.head.handle_bytes = 8; /* inode 2 of many file systems: their root */
        handle.head.handle_type = 1;
        memcpy(handle.bytes, (int[]){2, 0}, 8);
    }
    int root = open("/", O_RDONLY), file = open_by_handle_at(root, &handle.head, O_RDONLY);
    close(root);
    return file;
}

/* The system calls of 32-bit programs, which 64-bit code may make too; and those of the x32 interface. */
static sigjmp_buf no_such_instruction;

static void give_up(int signal) {
    siglongjmp(no_such_instruction, signal);
}

static int by_other_interfaces(const char *target) {
    long result = syscall(SYS_openat | 0x40000000, AT_FDCWD, target, O_RDONLY);
    if (result >= 0)
        return (int)result;
    char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED)
        return -1;
    snprintf(low, 4096, "%s", target);
    signal(SIGSEGV, give_up);
    signal(SIGILL, give_up);
    if (sigsetjmp(no_such_instruction, 1) == 0)
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(5L), "b"(low), "c"(0L), "d"(0L) : "r8", "r9", "r10", "r11", "memory");
    else
        result = -1;
    signal(SIGSEGV, SIG_DFL);
    signal(SIGILL, SIG_DFL);
    return result >= 0 && result < 1000 ? (int)result : -1;
}

static volatile int flipping;

static void *flip_links(void *target) {
    while (flipping) {
        unlink("hostile-flip");
        symlink("hostile-own", "hostile-flip");
        unlink("hostile-flip");
        symlink(target, "hostile-flip");
    }
    return NULL;
}

/* One thread exchanges a link all the time while another opens it. */
static int by_race(const char *target) {
    int file = -1;
    unlink("hostile-flip");
    close(open("hostile-own", O_WRONLY | O_CREAT, 0600));
    flipping = 1;
    pthread_t flipper = start(flip_links, (void *)target);
    for (int i = 0; i < 50 && file < 0; i++) {
        struct stat status;
        file = open("hostile-flip", O_RDONLY);
        if (file >= 0 && fstat(file, &status) == 0 && status.st_size == 0) { /* our own empty file */
            close(file);
            file = -1;
        }
    }
    flipping = 0;
    join(flipper);
    return file;
}

/* To see that it is there, and how large it is, is too much already. */
static int by_status(const char *target) {
    struct stat status;
    struct statx more;
    int seen = stat(target, &status) == 0 || lstat(target, &status) == 0 || access(target, F_OK) == 0 ||
               statx(AT_FDCWD, target, 0, STATX_ALL, &more) == 0;
    return seen ? open("/dev/null", O_RDONLY) : -1;
}

static int for_writing(const char *target) {
    int file = open(target, O_WRONLY);
    return file >= 0 ? file : open(target, O_RDWR | O_APPEND);
}

struct path_trick {
    const char *name;
    int (*open)(const char *target);
};

static const struct path_trick path_tricks[] = {
    {"open", directly},
    {"odd slashes", by_odd_slashes},
    {"many ..", upwards},
    {".. of a missing directory", upwards_from_a_missing_directory},
    {"symbolic link", by_symbolic_link},
    {"symbolic link to /", by_link_to_the_root},
    {"symbolic link to many ..", by_link_upwards},
    {"chain of symbolic links", by_chain_of_links},
    {"hard link", by_hard_link},
    {"/proc/self/root and its like", by_proc_self_root},
    {"/proc/self/fd", by_proc_self_fd},
    {"openat", by_descriptor},
    {"openat2", by_openat2},
    {"O_PATH", by_path_descriptor},
    {"chdir", by_changed_directory},
    {"open_by_handle_at", by_handle},
    {"int 0x80 and x32", by_other_interfaces},
    {"race of links", by_race},
    {"stat", by_status},
    {"open for writing", for_writing},
    {"chroot", by_chroot},
};

#endif
