/* correct twin of samba_vfs_cwd: files are opened relative to the directory descriptor with openat, the current directory is left alone */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARES = 2, FILES = 3 };

struct share {
    char path[64];
    int dirfd;
    unsigned opens, bytes;
};

struct open_job {
    struct open_job *next;
    struct share *share;
    char name[16];
    int fd;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct open_job *head, **tail;
    int closing;
    unsigned done;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static struct share shares[SHARES];
static struct open_job jobs[SHARES * FILES];

static void aio_open_do(struct open_job *job) {
    job->fd = openat(job->share->dirfd, job->name, O_CREAT | O_WRONLY, 0644);
}

static void *pool_server(void *arg) {
    (void)arg;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.head && !pool.closing)
            pthread_cond_wait(&pool.more, &pool.lock);
        struct open_job *job = pool.head;
        if (!job)
            break;
        pool.head = job->next;
        if (!pool.head)
            pool.tail = &pool.head;
        pthread_mutex_unlock(&pool.lock);
        aio_open_do(job);
        ssize_t n = job->fd < 0 ? 0 : write(job->fd, job->name, strlen(job->name));
        if (job->fd >= 0)
            close(job->fd);
        pthread_mutex_lock(&pool.lock);
        job->share->opens++;
        job->share->bytes += (unsigned)n;
        pool.done++;
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static void pool_add(struct open_job *job) {
    pthread_mutex_lock(&pool.lock);
    *pool.tail = job;
    pool.tail = &job->next;
    pthread_cond_signal(&pool.more);
    pthread_mutex_unlock(&pool.lock);
}

int main(void) {
    pthread_t t[SHARES];
    unsigned missing = 0;
    int home = open(".", O_RDONLY | O_DIRECTORY);
    pool.tail = &pool.head;
    for (int s = 0; s < SHARES; s++) {
        snprintf(shares[s].path, sizeof shares[s].path, "/tmp/smbd-%d-share%d", (int)getpid(), s);
        if (mkdir(shares[s].path, 0755) != 0 || (shares[s].dirfd = open(shares[s].path, O_RDONLY | O_DIRECTORY)) < 0)
            return 2;
    }
    for (int i = 0; i < SHARES * FILES; i++) {
        jobs[i].share = &shares[i / FILES];
        snprintf(jobs[i].name, sizeof jobs[i].name, "doc%d.txt", i);
        if (i < SHARES * FILES - 1)
            pool_add(&jobs[i]);
    }
    for (int i = 0; i < SHARES; i++)
        pthread_create(&t[i], NULL, pool_server, NULL);
    pool_add(&jobs[SHARES * FILES - 1]);
    pthread_mutex_lock(&pool.lock);
    pool.closing = 1;
    pthread_cond_broadcast(&pool.more);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < SHARES; i++)
        pthread_join(t[i], NULL);
    if (fchdir(home) != 0)
        return 2;
    for (int i = 0; i < SHARES * FILES; i++) {
        if (faccessat(jobs[i].share->dirfd, jobs[i].name, F_OK, 0) != 0) {
            fprintf(stderr, "%s is not in %s\n", jobs[i].name, jobs[i].share->path);
            missing++;
        }
        for (int s = 0; s < SHARES; s++)
            unlinkat(shares[s].dirfd, jobs[i].name, 0);
    }
    for (int s = 0; s < SHARES; s++)
        rmdir(shares[s].path);
    printf("%u files opened, %u missing\n", pool.done, missing);
    return pool.done == SHARES * FILES && missing == 0 ? 0 : 1;
}
