/* A program that tries to break out of the sandbox, for the recorder's tests; it is not meant to be run
 * without a sandbox. Every trick prints one line: "refused", or "ESCAPED" with what it reached, never with
 * contents. Arguments: absolute paths of more files that it must not reach. Exit code 1 when anything
 * escaped. The caller must look for itself that nothing named `corebraid-escaped` came to be outside, and that
 * the files it named are unchanged. */
#include "hostile_paths.h"
#include <dirent.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define MARK "corebraid-escaped"

static int escaped;
static char evidence[512];

static void report(const char *trick, int got_out) {
    if (got_out)
        printf("hostile: %s: ESCAPED %s\n", trick, evidence);
    else
        printf("hostile: %s: refused\n", trick);
    fflush(stdout);
    escaped += got_out;
}

/* The sandbox may have an /etc/passwd of its own, with nobody but root and user in it. */
static int has_foreign_users(int file) {
    static char text[65536];
    long n = read(file, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "root:", 5) != 0 && strncmp(line, "user:", 5) != 0)
            return 1;
    return 0;
}

static int reached(int file, const char *target) {
    char text[4096];
    if (file < 0)
        return 0;
    int own = strcmp(target, "/etc/passwd") == 0 && !has_foreign_users(file);
    long n = own ? 0 : read(file, text, sizeof text);
    snprintf(evidence, sizeof evidence, "%s (%ld bytes)", target, n > 0 ? n : 0);
    close(file);
    return !own;
}

static void try_paths(int count, char **targets) {
    const char *always[] = {"/etc/shadow", "/etc/passwd", "/root/.bashrc", "/root/.profile",
                            "/proc/1/environ", "/proc/1/maps", "/proc/kcore", "/proc/kallsyms", "/dev/mem",
                            "/dev/kmsg", "/dev/kvm", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/net/tun",
                            "/dev/vsock", "/proc/sysrq-trigger",
                            "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs"};
    for (unsigned i = 0; i < sizeof path_tricks / sizeof *path_tricks; i++) {
        int got_out = 0;
        for (unsigned j = 0; j < sizeof always / sizeof *always && !got_out; j++)
            if (path_tricks[i].open != by_status && path_tricks[i].open != for_writing) /* /etc/passwd may be there */
                got_out = reached(path_tricks[i].open(always[j]), always[j]);
        for (int j = 1; j < count && !got_out; j++)
            got_out = reached(path_tricks[i].open(targets[j]), targets[j]);
        report(path_tricks[i].name, got_out);
    }
}

/* Entries of a directory that do not belong to a sandbox's own. */
static int foreign_entries(const char *name, const char *allowed) {
    DIR *directory = opendir(name);
    int found = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, allowed) != 0) {
            snprintf(evidence, sizeof evidence, "%s/%s", name, entry->d_name);
            found = 1;
        }
    if (directory)
        closedir(directory);
    return found;
}

static int see_processes(void) {
    DIR *directory = opendir("/proc");
    int found = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && pid != getpid()) {
            snprintf(evidence, sizeof evidence, "/proc/%d", pid);
            found = 1;
        }
    }
    if (directory)
        closedir(directory);
    return found;
}

/* One trick with one other process: 1 when it worked. */
static int touch_process(int trick, pid_t pid) {
    char byte, *anywhere = (char *)0x400000;
    struct iovec here = {&byte, 1}, there = {anywhere, 1};
    struct rlimit limit;
    cpu_set_t set;
    siginfo_t info = {.si_code = SI_QUEUE};
    errno = 0;
    switch (trick) {
    case 0: return kill(pid, 0) == 0;
    case 1: return syscall(SYS_tgkill, pid, pid, 0) == 0 || syscall(SYS_tkill, pid, 0) == 0;
    case 2: return ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
    case 3: return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 || errno == EFAULT;
    case 4: return syscall(SYS_pidfd_open, pid, 0) >= 0;
    case 5: return prlimit(pid, RLIMIT_NOFILE, NULL, &limit) == 0;
    case 6: return sched_getaffinity(pid, sizeof set, &set) == 0;
    case 7: return syscall(SYS_rt_sigqueueinfo, pid, 0, &info) == 0;
    default: return syscall(SYS_get_robust_list, pid, &anywhere, &limit) == 0;
    }
}

static void try_processes(void) {
    static const char *const names[] = {"kill", "tgkill and tkill", "ptrace", "process_vm_readv", "pidfd_open",
                                        "prlimit", "sched_getaffinity", "rt_sigqueueinfo", "get_robust_list"};
    for (int trick = 0; trick < 9; trick++) {
        int got_out = 0;
        for (pid_t pid = 1; pid < 40 && !got_out; pid++) {
            pid_t other = pid == 39 ? getppid() : pid;
            if (other <= 0 || other == getpid() || !touch_process(trick, other))
                continue;
            got_out = 1;
            snprintf(evidence, sizeof evidence, "process %d", other);
        }
        report(names[trick], got_out);
    }
    snprintf(evidence, sizeof evidence, "some process");
    report("kill of everybody", kill(-1, 0) == 0);
    report("processes in /proc", see_processes());
    snprintf(evidence, sizeof evidence, "root");
    report("become root", getuid() != 0 && (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0));
}

static int connect_ipv4(int type, unsigned address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
    struct timeval soon = {2, 0};
    int connection = socket(AF_INET, type, 0);
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    int connected = connect(connection, (struct sockaddr *)&to, sizeof to) == 0;
    /* A datagram is taken even if nobody is there; only the next one fails then. */
    if (connected && type == SOCK_DGRAM)
        connected = send(connection, "", 0, 0) == 0 && send(connection, "", 0, 0) == 0;
    close(connection);
    snprintf(evidence, sizeof evidence, "connected to port %d", port);
    return connected;
}

static int connect_unix(const char *name, int is_abstract) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path + is_abstract, sizeof to.sun_path - is_abstract, "%s", name);
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + is_abstract + strlen(name) + !is_abstract;
    int connected = connect(connection, (struct sockaddr *)&to, size) == 0;
    close(connection);
    snprintf(evidence, sizeof evidence, "connected to %s", name);
    return connected;
}

static void try_network(void) {
    report("connect to 127.0.0.1:22", connect_ipv4(SOCK_STREAM, INADDR_LOOPBACK, 22));
    report("connect to 127.0.0.53:53", connect_ipv4(SOCK_DGRAM, INADDR_LOOPBACK + 52, 53));
    report("connect to 8.8.8.8:53", connect_ipv4(SOCK_STREAM, 0x08080808, 53));
    report("datagram to 8.8.8.8:53", connect_ipv4(SOCK_DGRAM, 0x08080808, 53));
    report("unix socket /var/run/docker.sock", connect_unix("/var/run/docker.sock", 0));
    report("unix socket /run/dbus/system_bus_socket", connect_unix("/run/dbus/system_bus_socket", 0));
    report("abstract unix socket /tmp/.X11-unix/X0", connect_unix("/tmp/.X11-unix/X0", 1));
    snprintf(evidence, sizeof evidence, "a socket below the internet's protocols");
    report("raw and packet sockets", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0 || socket(AF_PACKET, SOCK_RAW, 0) >= 0 ||
                                         socket(AF_VSOCK, SOCK_STREAM, 0) >= 0);
}

static void try_kernel(void) {
    struct io_uring_params ring = {0};
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    struct perf_event_attr counter = {.type = PERF_TYPE_SOFTWARE, .size = sizeof counter, .exclude_kernel = 1};
    char byte = 0;
    snprintf(evidence, sizeof evidence, "the call succeeded");
    report("mount", mount("none", ".", "tmpfs", 0, NULL) == 0 || mount("/", ".", NULL, MS_BIND, NULL) == 0);
    report("umount", umount2("/proc", MNT_DETACH) == 0);
    report("pivot_root", syscall(SYS_pivot_root, ".", ".") == 0);
    report("unshare", unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWNS) == 0);
    report("setns", setns(open("/proc/1/ns/mnt", O_RDONLY), 0) == 0);
    report("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map) >= 0);
    report("perf_event_open", syscall(SYS_perf_event_open, &counter, -1, 0, -1, 0) >= 0);
    report("io_uring_setup", syscall(SYS_io_uring_setup, 4, &ring) >= 0);
    report("keyctl", syscall(SYS_keyctl, 0, -3, 0) >= 0 || syscall(SYS_add_key, "user", MARK, "x", 1, -3) >= 0);
    report("fsopen", syscall(SYS_fsopen, "tmpfs", 0) >= 0 || syscall(SYS_open_tree, AT_FDCWD, "/", 1) >= 0);
    report("init_module", syscall(SYS_init_module, &byte, 1, "") == 0);
    report("iopl", iopl(3) == 0 || ioperm(0x80, 1, 1) == 0);
    report("kernel log", syscall(SYS_syslog, 10, NULL, 0) > 0);
    report("typing into the terminal", ioctl(0, TIOCSTI, &byte) == 0);
    int program = open("/proc/self/exe", O_RDONLY);
    report("kernel addresses", write(1, (void *)0xffffffff80000000UL, 1) > 0 ||
                                   syscall(SYS_getcwd, 0xffff888000000000UL, 100) > 0 ||
                                   read(program, (void *)0xffff888000000000UL, 1) > 0);
    close(program);
    report("mapping kernel addresses",
           mmap((void *)0xffff800000000000UL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
               MAP_FAILED);
}

static void try_inheritance(void) {
    static char text[65536];
    int inherited = 0, file = open("/proc/self/environ", O_RDONLY);
    long n = file >= 0 ? read(file, text, sizeof text) : 0;
    if (file >= 0)
        close(file);
    snprintf(evidence, sizeof evidence, "COREBRAID_SECRET");
    report("environment", getenv("COREBRAID_SECRET") || memmem(text, n > 0 ? n : 0, "COREBRAID_SECRET", 16));
    for (int i = 3; i < 256; i++)
        if (fcntl(i, F_GETFD) != -1) {
            inherited = 1;
            snprintf(evidence, sizeof evidence, "descriptor %d", i);
        }
    report("inherited descriptors", inherited);
    report("homes", foreign_entries("/home", "user") || foreign_entries("/root", ""));
    snprintf(evidence, sizeof evidence, "opened for writing");
    report("writing to the program", open("/proc/self/exe", O_WRONLY) >= 0);
}

/* The sandbox may take these writes into a layer of its own; the caller sees whether any came out. */
static void write_outside(int count, char **targets) {
    static const char *const places[] = {"/" MARK, "/tmp/" MARK, UPWARDS "/" MARK, "/proc/self/root/" MARK,
                                         "/proc/self/cwd/../" MARK, "/home/" MARK, "/etc/" MARK, "/dev/shm/" MARK};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        close(open(places[i], O_WRONLY | O_CREAT, 0600));
        snprintf(path, sizeof path, "%s-directory", places[i]);
        mkdir(path, 0700);
    }
    for (int i = 1; i < count; i++) {
        int file = open(targets[i], O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (file >= 0 && write(file, MARK "\n", sizeof MARK) > 0)
            close(file);
    }
    printf("hostile: writing outside: left to the caller\n");
}

int main(int count, char **arguments) {
    try_inheritance(); /* first: the others open descriptors */
    try_processes();
    try_network();
    try_kernel();
    write_outside(1, NULL);
    try_paths(count, arguments);
    write_outside(count, arguments);
    printf("hostile: escaped %d\n", escaped);
    return escaped != 0;
}
