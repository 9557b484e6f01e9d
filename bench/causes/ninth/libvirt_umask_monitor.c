/* class: process-wide state (file mode creation mask); fails by: wrong result; cause: one thread sets the umask of the process to zero while it makes the monitor fifo, and the file with a secret that another thread creates before it is set back can be read by everybody */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DOMAINS = 3 };

struct domain {
    char name[16];
    char secret[64];
    unsigned key;
    int error;
};

static char state_dir[32], monitor[64];
static struct domain domains[DOMAINS];

static struct {
    pthread_mutex_t lock;
    unsigned monitors, secrets, probes;
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void count(unsigned *counter) {
    pthread_mutex_lock(&driver.lock);
    ++*counter;
    pthread_mutex_unlock(&driver.lock);
}

/* every member of the group may talk to the monitor */
static int monitor_open(void) {
    mode_t old = umask(0); // CAUSE
    int rc = mkfifo(monitor, 0660);
    umask(old); // CAUSE
    if (rc == 0)
        count(&driver.monitors);
    return rc;
}

static unsigned derive_key(const char *name) {
    unsigned key = 2166136261u;
    for (int round = 0; round < 600; round++)
        for (const char *p = name; *p; p++)
            key = (key ^ (unsigned char)*p) * 16777619u;
    return key;
}

static int secret_save(struct domain *d) {
    char text[48];
    int n = snprintf(text, sizeof text, "<secret key='%08x'>%s</secret>\n", d->key, d->name);
    int fd = open(d->secret, O_CREAT | O_EXCL | O_WRONLY, 0666); // CAUSE
    if (fd < 0)
        return -1;
    int rc = write(fd, text, (size_t)n) == n ? 0 : -1;
    close(fd);
    if (rc == 0)
        count(&driver.secrets);
    return rc;
}

static int monitor_error;

static void *start_monitor(void *arg) {
    (void)arg;
    monitor_error = monitor_open();
    for (int i = 0; i < DOMAINS; i++)
        count(&driver.probes);
    return NULL;
}

static void *save_secrets(void *arg) {
    (void)arg;
    for (int i = 0; i < DOMAINS; i++)
        domains[i].key = derive_key(domains[i].name);
    for (int i = 0; i < DOMAINS; i++)
        domains[i].error = secret_save(&domains[i]);
    return NULL;
}

static int mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int)(st.st_mode & 0777) : -1;
}

static void remove_files(void) {
    for (int i = 0; i < DOMAINS; i++)
        unlink(domains[i].secret);
    unlink(monitor);
    rmdir(state_dir);
}

int main(void) {
    pthread_t start, save;
    unsigned open_secrets = 0, errors = 0;
    umask(077);
    snprintf(state_dir, sizeof state_dir, "/tmp/libvirt-%d", (int)getpid());
    snprintf(monitor, sizeof monitor, "/tmp/libvirt-%d/monitor", (int)getpid());
    for (int i = 0; i < DOMAINS; i++) {
        struct domain *d = &domains[i];
        snprintf(d->name, sizeof d->name, "guest%d", i);
        snprintf(d->secret, sizeof d->secret, "/tmp/libvirt-%d/guest%d.xml", (int)getpid(), i);
    }
    remove_files();
    if (mkdir(state_dir, 0700) != 0)
        return 2;
    pthread_create(&start, NULL, start_monitor, NULL);
    pthread_create(&save, NULL, save_secrets, NULL);
    pthread_join(start, NULL);
    pthread_join(save, NULL);
    for (int i = 0; i < DOMAINS; i++) {
        struct domain *d = &domains[i];
        if (d->error)
            errors++;
        if (mode_of(d->secret) != 0600) {
            fprintf(stderr, "the secret of %s has mode %o\n", d->name, (unsigned)mode_of(d->secret));
            open_secrets++;
        }
    }
    if (monitor_error || mode_of(monitor) != 0660)
        errors++;
    remove_files();
    printf("%u monitors, %u secrets, %u of them open\n", driver.monitors, driver.secrets, open_secrets);
    return open_secrets == 0 && errors == 0 ? 0 : 1;
}
