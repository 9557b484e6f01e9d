/* Files and directories, below files.tmp in the current directory: open, read, write, seek, append, truncate,
 * rename, link, unlink, readdir, stat, times, permissions, positions shared by dup and by threads. */
#include "guest.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define THREADS 4
#define LINES 20
#define LINE 8

static int shared_file;

static void check_read_and_write(void) {
    char text[32] = "";
    struct stat status;
    int file = open("plain", O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(file >= 0 && write(file, "hello, world", 12) == 12);
    CHECK(open("plain", O_RDWR | O_CREAT | O_EXCL, 0640) == -1 && errno == EEXIST);
    CHECK(lseek(file, -5, SEEK_END) == 7 && read(file, text, 32) == 5 && memcmp(text, "world", 5) == 0);
    CHECK(read(file, text, 32) == 0 && lseek(file, 0, SEEK_CUR) == 12);
    CHECK_FAILS(lseek(file, -1, SEEK_SET), EINVAL);
    CHECK(pread(file, text, 5, 0) == 5 && memcmp(text, "hello", 5) == 0);
    CHECK(pwrite(file, "far", 3, 100) == 3 && fstat(file, &status) == 0 && status.st_size == 103);
    CHECK(S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0640 && status.st_nlink == 1);
    CHECK(pread(file, text, 3, 50) == 3 && text[0] == 0 && text[2] == 0);
    CHECK(ftruncate(file, 5) == 0 && stat("plain", &status) == 0 && status.st_size == 5);
    struct iovec parts[2] = {{"ab", 2}, {"cde", 3}};
    CHECK(lseek(file, 0, SEEK_SET) == 0 && writev(file, parts, 2) == 5);
    int copy = dup(file);
    CHECK(copy >= 0 && lseek(copy, 1, SEEK_SET) == 1 && read(file, text, 2) == 2 && text[0] == 'b');
    CHECK((fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR && fcntl(file, F_GETFD) == 0);
    CHECK(dup2(file, 77) == 77 && close(77) == 0 && close(copy) == 0 && close(file) == 0);
    CHECK_FAILS(close(file), EBADF);
}

static void check_errors(void) {
    char text[4], *volatile nowhere = (char *)8;
    int reader = open("plain", O_RDONLY);
    CHECK_FAILS(write(reader, "x", 1), EBADF);
    CHECK_FAILS(read(reader, nowhere, 1), EFAULT);
    CHECK(close(reader) == 0);
    int writer = open("plain", O_WRONLY | O_APPEND);
    CHECK_FAILS(read(writer, text, 1), EBADF);
    CHECK(write(writer, "fg", 2) == 2 && lseek(writer, 0, SEEK_CUR) == 7 && close(writer) == 0);
    CHECK_FAILS(open("missing", O_RDONLY), ENOENT);
    CHECK_FAILS(open("plain/below", O_RDONLY), ENOTDIR);
    CHECK_FAILS(open("", O_RDONLY), ENOENT);
    CHECK_FAILS(open((const char *)16, O_RDONLY), EFAULT);
    CHECK_FAILS(open(".", O_WRONLY), EISDIR);
    CHECK_FAILS(open("plain", O_RDONLY | O_DIRECTORY), ENOTDIR);
    CHECK_FAILS(rmdir("plain"), ENOTDIR);
    CHECK_FAILS(mkdir("plain", 0700), EEXIST);
}

static void check_links(void) {
    char text[PATH_MAX];
    struct stat status;
    CHECK(link("plain", "linked") == 0 && stat("linked", &status) == 0 && status.st_nlink == 2);
    CHECK(symlink("linked", "symbolic") == 0 && readlink("symbolic", text, sizeof text) == 6);
    CHECK(lstat("symbolic", &status) == 0 && S_ISLNK(status.st_mode) && status.st_size == 6);
    CHECK(stat("symbolic", &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 7);
    CHECK(symlink("loop", "loop") == 0);
    CHECK_FAILS(open("loop", O_RDONLY), ELOOP);
    CHECK_FAILS(open("symbolic", O_RDONLY | O_NOFOLLOW), ELOOP);
    CHECK(rename("plain", "renamed") == 0);
    CHECK_FAILS(access("plain", F_OK), ENOENT);
    CHECK(access("renamed", R_OK | W_OK) == 0);
    CHECK(unlink("linked") == 0);
    CHECK_FAILS(stat("symbolic", &status), ENOENT);
    CHECK(realpath("./renamed", text) && strcmp(strrchr(text, '/'), "/renamed") == 0);
}

static void check_status(void) {
    struct stat status;
    struct timespec times[2] = {{1000000000, 5}, {1100000000, 6}};
    CHECK(utimensat(AT_FDCWD, "renamed", times, 0) == 0 && stat("renamed", &status) == 0);
    CHECK(status.st_mtim.tv_sec == 1100000000 && status.st_mtim.tv_nsec == 6);
    CHECK(chmod("renamed", 0600) == 0 && stat("renamed", &status) == 0 && (status.st_mode & 0777) == 0600);
    CHECK(umask(027) == 022 && umask(022) == 027);
}

static void *append_lines(void *argument) {
    char line[16];
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "%d %5d\n", (char)(long)argument, i);
        CHECK(write(shared_file, line, LINE) == LINE);
    }
    return NULL;
}

/* Threads share one position: no line is lost or torn. */
static void check_threads(void) {
    char text[LINE + 1] = "";
    int next[THREADS] = {0}, thread, number;
    shared_file = open("lines", O_RDWR | O_CREAT, 0600);
    run_threads(THREADS, append_lines);
    for (int i = 0; i < THREADS * LINES; i++) {
        CHECK(pread(shared_file, text, LINE, i * LINE) == LINE);
        CHECK(sscanf(text, "%d %d", &thread, &number) == 2 && number == next[thread]++);
    }
    CHECK(lseek(shared_file, 0, SEEK_END) == THREADS * LINES * LINE && close(shared_file) == 0);
}

static int compare(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

static void list(void) {
    struct dirent **entries;
    int n = scandir(".", &entries, NULL, compare);
    CHECK(n > 0);
    printf("files:");
    for (int i = 0; i < n; i++)
        printf(" %s%s", entries[i]->d_name, entries[i]->d_type == DT_DIR ? "/" : "");
    printf("\n");
}

static void check_directories(void) {
    char text[PATH_MAX];
    CHECK(mkdir("folder", 0700) == 0 && chdir("folder") == 0);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "number-%03d", i);
        CHECK(close(open(text, O_WRONLY | O_CREAT, 0600)) == 0);
    }
    DIR *directory = opendir(".");
    int seen = 0;
    while (directory && readdir(directory))
        seen++;
    CHECK(directory && closedir(directory) == 0 && seen == 102);
    CHECK_FAILS(rmdir("../folder"), ENOTEMPTY);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "number-%03d", i);
        CHECK(unlink(text) == 0);
    }
    CHECK(getcwd(text, sizeof text) && strcmp(strrchr(text, '/'), "/folder") == 0);
    CHECK(chdir("..") == 0 && close(openat(AT_FDCWD, "folder/inner", O_CREAT | O_WRONLY, 0600)) == 0);
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    CHECK(renameat(folder, "inner", AT_FDCWD, "outer") == 0 && close(folder) == 0);
}

int main(void) {
    CHECK(mkdir("files.tmp", 0700) == 0 && chdir("files.tmp") == 0);
    check_read_and_write();
    check_errors();
    check_links();
    check_status();
    check_threads();
    check_directories();
    list();
    CHECK(unlink("lines") == 0 && unlink("loop") == 0 && unlink("outer") == 0 && unlink("renamed") == 0);
    CHECK(unlink("symbolic") == 0 && rmdir("folder") == 0 && chdir("..") == 0 && rmdir("files.tmp") == 0);
    printf("files: done\n");
    return 0;
}
