/* class: atomicity violation (lock file on disk); fails by: failed check; cause: a thread opens the lock file, the holder unlinks it and lets go of the lock, and the thread then locks the unlinked file while another one makes and locks a new file of the same name, so both are in the critical section */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMANDS = 2, CHANGES = 3 };

/* the metadata of a volume group, to be changed by one command at a time */
struct volume_group {
    char lock_path[48];
    atomic_int owner;
    atomic_int seqno;
    atomic_int extents[4];
};

static struct volume_group vg;

static void fatal(const char *what) {
    perror(what);
    exit(2);
}

static int lock_file(const char *path) {
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600); // CAUSE
    if (fd < 0)
        fatal("open");
    if (flock(fd, LOCK_EX) != 0) // CAUSE
        fatal("flock");
    return fd;
}

static void unlock_file(const char *path, int fd) {
    if (unlink(path) != 0) // CAUSE
        perror("unlink");
    close(fd);
}

/* moves an extent; reports the commands that were in the metadata together */
static int vg_write(int me, int from, int to) {
    int clash = 0, none = 0;
    if (!atomic_compare_exchange_strong(&vg.owner, &none, me)) {
        fprintf(stderr, "command %d finds command %d in the volume group\n", me, none);
        clash = 1;
    }
    int seqno = atomic_load(&vg.seqno);
    int moved = atomic_load(&vg.extents[from]) / 2;
    atomic_store(&vg.extents[from], atomic_load(&vg.extents[from]) - moved);
    atomic_store(&vg.extents[to], atomic_load(&vg.extents[to]) + moved);
    atomic_store(&vg.seqno, seqno + 1);
    if (!clash)
        atomic_store(&vg.owner, 0);
    return clash;
}

struct command {
    pthread_t thread;
    int id, clashes, done;
};

static void *command_main(void *arg) {
    struct command *c = arg;
    for (int i = 0; i < CHANGES; i++) {
        int fd = lock_file(vg.lock_path);
        c->clashes += vg_write(c->id, (c->id + i) % 4, (c->id + i + 1) % 4);
        unlock_file(vg.lock_path, fd);
        c->done++;
    }
    return NULL;
}

int main(void) {
    struct command c[COMMANDS];
    int clashes = 0, done = 0, extents = 0;
    snprintf(vg.lock_path, sizeof vg.lock_path, "/tmp/lvm-V_vg%d", (int)getpid());
    unlink(vg.lock_path);
    for (int i = 0; i < 4; i++)
        atomic_init(&vg.extents[i], 64);
    memset(c, 0, sizeof c);
    for (int i = 0; i < COMMANDS; i++) {
        c[i].id = i + 1;
        pthread_create(&c[i].thread, NULL, command_main, &c[i]);
    }
    for (int i = 0; i < COMMANDS; i++) {
        pthread_join(c[i].thread, NULL);
        clashes += c[i].clashes;
        done += c[i].done;
    }
    for (int i = 0; i < 4; i++)
        extents += atomic_load(&vg.extents[i]);
    unlink(vg.lock_path);
    printf("%d changes, seqno %d, %d extents, %d clashes\n", done, atomic_load(&vg.seqno), extents, clashes);
    return clashes == 0 && atomic_load(&vg.seqno) == done && extents == 256 ? 0 : 1;
}
