/* What a process sets about itself and reads back, with the errors: prctl, priorities, policies, barriers, locked
 * memory, protection keys, seals, and a port after a connection that was refused. The same for an ordinary user. */
#include "guest.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <linux/capability.h>
#include <linux/membarrier.h>

#define PAGE 4096

static void *inherited(void *argument) {
    int number = -1;
    CHECK(prctl(PR_GET_TIMERSLACK) == 1234 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(prctl(PR_GET_PDEATHSIG, &number) == 0 && number == 0);
    CHECK(prctl(PR_SET_TIMERSLACK, 99) == 0 && getpriority(PRIO_PROCESS, 0) == 7);
    CHECK(sched_getscheduler(0) == SCHED_BATCH);
    return argument;
}

static void check_prctl(void) {
    char name[16];
    int number = -1;
    CHECK(prctl(PR_SET_NAME, "a name of more than 15 bytes") == 0 && prctl(PR_GET_NAME, name) == 0);
    CHECK(strcmp(name, "a name of more ") == 0);
    CHECK(prctl(PR_SET_PDEATHSIG, 9) == 0 && prctl(PR_GET_PDEATHSIG, &number) == 0 && number == 9);
    CHECK_FAILS(prctl(PR_SET_PDEATHSIG, 99), EINVAL);
    CHECK(prctl(PR_GET_DUMPABLE) == 1 && prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    CHECK_FAILS(prctl(PR_SET_DUMPABLE, 2), EINVAL);
    CHECK(prctl(PR_GET_KEEPCAPS) == 0 && prctl(PR_SET_KEEPCAPS, 1) == 0 && prctl(PR_GET_KEEPCAPS) == 1);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 5) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &number) == 0 && number == 1);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    CHECK(prctl(PR_GET_TSC, &number) == 0 && number == PR_TSC_ENABLE);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_TIMERSLACK, 1234) == 0);
    CHECK_FAILS(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL);
    CHECK_FAILS(prctl(9999), EINVAL);
}

static void check_priorities(void) {
    struct sched_param none = {0}, some = {4};
    CHECK(getpriority(PRIO_PROCESS, 0) == 0 && setpriority(PRIO_PROCESS, 0, 7) == 0);
    CHECK(getpriority(PRIO_PROCESS, 0) == 7 && getpriority(PRIO_PROCESS, getpid()) == 7);
    CHECK_FAILS(setpriority(PRIO_PROCESS, 999999, 1), ESRCH);
    CHECK_FAILS(setpriority(99, 0, 9), EINVAL);
    CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0 && sched_getscheduler(0) == SCHED_BATCH);
    CHECK_FAILS(sched_setscheduler(0, SCHED_BATCH, &some), EINVAL);
    CHECK_FAILS(sched_setscheduler(0, 99, &none), EINVAL);
    CHECK_FAILS(sched_setscheduler(0, SCHED_FIFO, &none), EINVAL);
    CHECK_FAILS(sched_setparam(0, &some), EINVAL);
    CHECK(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4) == 0 && syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 4));
    join(start(inherited, NULL));
    CHECK(prctl(PR_GET_TIMERSLACK) == 1234);
}

static long barrier(int command, int flags) {
    return syscall(SYS_membarrier, command, flags, 0);
}

static void check_others(void) {
    struct __user_cap_header_struct header = {0x12345678, 0};
    CHECK((barrier(MEMBARRIER_CMD_QUERY, 0) & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0);
    CHECK_FAILS(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0), EPERM);
    CHECK(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0);
    CHECK(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == 0 && barrier(MEMBARRIER_CMD_GLOBAL, 0) == 0);
    CHECK_FAILS(barrier(MEMBARRIER_CMD_QUERY, 5), EINVAL);
    CHECK_FAILS(barrier(1 << 20, 0), EINVAL);
    CHECK_FAILS(syscall(SYS_getgroups, -1, NULL), EINVAL);
    CHECK_FAILS(getpgid(999999), ESRCH);
    CHECK(syscall(SYS_capget, &header, NULL) == 0 && header.version == _LINUX_CAPABILITY_VERSION_3);
    CHECK_FAILS(syscall(SYS_waitid, 0, 0, NULL, 0, NULL), EINVAL);
    CHECK_FAILS(syscall(SYS_set_mempolicy, 99, NULL, 0), EINVAL);
}

static void check_memory(void) {
    char *place = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED && munmap(place + 2 * PAGE, PAGE) == 0);
    CHECK(mlock(place, PAGE) == 0 && munlock(place, PAGE) == 0);
    CHECK_FAILS(mlock(place + 2 * PAGE, PAGE), ENOMEM);
    CHECK_FAILS(mlock2(place, PAGE, 2), EINVAL);
    CHECK_FAILS(mlockall(0), EINVAL);
    CHECK(mprotect(place + PAGE, PAGE, PROT_READ) == 0);
    CHECK(mremap(place, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE) == place);
    CHECK(syscall(SYS_pkey_mprotect, place, PAGE, PROT_READ | PROT_WRITE, -1) == 0);
    int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0) == MAP_FAILED && errno == EOPNOTSUPP);
    place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(place != MAP_FAILED);
    CHECK_FAILS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
    *place = 'x';
    char byte = 0;
    CHECK(pread(fd, &byte, 1, 0) == 1 && byte == 'x');
    CHECK_FAILS(write(fd, "y", 1), EPERM);
    CHECK(munmap(place, PAGE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
    CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    CHECK(fcntl(fd, F_GETOWN) == 0);
}

/* As much as there is, above 8 GiB, as run-time systems reserve it; and then there is room for a thread. */
static void check_reservation(void) {
    unsigned long size = 1UL << 40, attempts = 0;
    for (char *place;; attempts++) {
        CHECK(attempts < 1000 && size > 1 << 20);
        place = mmap((char *)(0x4200000000 + attempts * PAGE), size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (place == MAP_FAILED)
            size = (size - size / 8) & ~(PAGE - 1UL);
        else if ((unsigned long)place >= 8UL << 30)
            break;
        else
            CHECK(munmap(place, size) == 0);
    }
    join(start(inherited, NULL));
}

/* A socket that was refused has no port any more, and takes another. */
static void check_refused(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0);
}

int main(void) {
    check_prctl();
    check_priorities();
    check_others();
    check_memory();
    check_reservation();
    check_refused();
    puts(PROGRAM ": prctl, priorities, barriers, memory, a refused port");
    return 0;
}
