/* correct twin of journald_truncate_sigbus: the check and the read, and the shrinking, are done under the lock of the file */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 3, ENTRIES = 6 };

struct header {
    char signature[8];
    uint64_t arena_size, n_entries, tail_seqnum;
};

struct entry {
    uint64_t seqnum, size;
    char payload[48];
};

static struct journal_file {
    char path[64];
    int fd;
    unsigned char *map;
    struct header *header;
    pthread_mutex_t file_lock;
    uint64_t offsets[ENTRIES];
    pthread_mutex_t lock;
    unsigned reads, skipped, vacuumed;
} file = { .file_lock = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_journal(void) {
    snprintf(file.path, sizeof file.path, "/tmp/journal-%d", (int)getpid());
    file.fd = open(file.path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (file.fd < 0 || ftruncate(file.fd, PAGE * PAGES) != 0)
        return -1;
    unlink(file.path);
    file.map = mmap(NULL, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    if (file.map == MAP_FAILED)
        return -1;
    file.header = (struct header *)file.map;
    memcpy(file.header->signature, "LPKSHHRH", 8);
    file.header->arena_size = PAGE * PAGES;
    for (unsigned i = 0; i < ENTRIES; i++) {
        file.offsets[i] = sizeof(struct header) + i * (PAGE * PAGES / ENTRIES);
        struct entry *e = (struct entry *)(file.map + file.offsets[i]);
        e->seqnum = i + 1;
        e->size = (uint64_t)snprintf(e->payload, sizeof e->payload, "MESSAGE=unit %u started", i);
        file.header->n_entries++;
        file.header->tail_seqnum = e->seqnum;
    }
    return 0;
}

static int read_entry(uint64_t offset, struct entry *out) {
    int rc = 0;
    pthread_mutex_lock(&file.file_lock);
    uint64_t size = __atomic_load_n(&file.header->arena_size, __ATOMIC_ACQUIRE);
    if (offset + sizeof(struct entry) <= size) {
        memcpy(out, file.map + offset, sizeof *out);
        rc = 1;
    }
    pthread_mutex_unlock(&file.file_lock);
    return rc;
}

static void *reader(void *arg) {
    unsigned long *sum = arg;
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct entry e;
        int ok = read_entry(file.offsets[i], &e);
        if (ok && (e.seqnum != i + 1 || e.size != strlen(e.payload)))
            abort();
        if (ok)
            *sum += e.seqnum;
        pthread_mutex_lock(&file.lock);
        if (ok) file.reads++; else file.skipped++;
        pthread_mutex_unlock(&file.lock);
    }
    return NULL;
}

static void *vacuum(void *arg) {
    const uint64_t limit = *(uint64_t *)arg;
    pthread_mutex_lock(&file.file_lock);
    if (__atomic_load_n(&file.header->arena_size, __ATOMIC_ACQUIRE) > limit) {
        __atomic_store_n(&file.header->arena_size, limit, __ATOMIC_RELEASE);
        if (ftruncate(file.fd, (off_t)limit) != 0)
            abort();
    }
    pthread_mutex_unlock(&file.file_lock);
    pthread_mutex_lock(&file.lock);
    file.vacuumed++;
    pthread_mutex_unlock(&file.lock);
    return NULL;
}

int main(void) {
    pthread_t r[2], v;
    unsigned long sum[2] = { 0, 0 };
    uint64_t limit = PAGE;
    if (open_journal() != 0)
        return 2;
    for (int i = 0; i < 2; i++)
        pthread_create(&r[i], NULL, reader, &sum[i]);
    pthread_create(&v, NULL, vacuum, &limit);
    for (int i = 0; i < 2; i++)
        pthread_join(r[i], NULL);
    pthread_join(v, NULL);
    printf("read %u skipped %u vacuumed %u\n", file.reads, file.skipped, file.vacuumed);
    return file.reads + file.skipped == 2 * ENTRIES && file.vacuumed == 1 && file.reads >= 4 ? 0 : 1;
}
