/* correct twin of hdf5_lseek_read: the file driver reads with pread, which neither uses nor moves the shared offset */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNKS = 4, CHUNK_SIZE = 64, READERS = 2 };

struct chunk_hdr {
    uint32_t index, nbytes, checksum;
};

struct chunk_cache_ent {
    int loading, loaded;
    struct chunk_hdr hdr;
    unsigned char data[CHUNK_SIZE];
};

static struct h5_file {
    char name[64];
    int fd;
    pthread_mutex_t cache_lock;
    pthread_cond_t loaded;
    struct chunk_cache_ent cache[CHUNKS];
    unsigned hits, misses, bad;
} file = { .cache_lock = PTHREAD_MUTEX_INITIALIZER, .loaded = PTHREAD_COND_INITIALIZER };

static uint32_t checksum(const unsigned char *p, unsigned n) {
    uint32_t a = 1, b = 0;
    while (n--) {
        a = (a + *p++) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static off_t chunk_addr(unsigned i) {
    return (off_t)i * (off_t)(sizeof(struct chunk_hdr) + CHUNK_SIZE);
}

static int sec2_read(int fd, off_t addr, void *buf, size_t size) {
    return pread(fd, buf, size, addr) == (ssize_t)size ? 0 : -1;
}

static int load_chunk(unsigned i, struct chunk_cache_ent *ent) {
    unsigned char raw[sizeof(struct chunk_hdr) + CHUNK_SIZE];
    if (sec2_read(file.fd, chunk_addr(i), raw, sizeof raw) != 0)
        return -1;
    memcpy(&ent->hdr, raw, sizeof ent->hdr);
    memcpy(ent->data, raw + sizeof ent->hdr, CHUNK_SIZE);
    return ent->hdr.index == i && ent->hdr.checksum == checksum(ent->data, CHUNK_SIZE) ? 0 : -1;
}

static struct chunk_cache_ent *protect_chunk(unsigned i) {
    struct chunk_cache_ent *ent = &file.cache[i];
    pthread_mutex_lock(&file.cache_lock);
    while (ent->loading)
        pthread_cond_wait(&file.loaded, &file.cache_lock);
    if (ent->loaded)
        file.hits++;
    else {
        ent->loading = 1;
        file.misses++;
        pthread_mutex_unlock(&file.cache_lock);
        int rc = load_chunk(i, ent);
        pthread_mutex_lock(&file.cache_lock);
        ent->loading = 0;
        ent->loaded = 1;
        if (rc != 0) {
            fprintf(stderr, "chunk %u: bad data read\n", i);
            file.bad++;
        }
        pthread_cond_broadcast(&file.loaded);
    }
    pthread_mutex_unlock(&file.cache_lock);
    return ent;
}

static void *dataset_read(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg, sum = 0;
    for (unsigned k = 0; k < CHUNKS / 2; k++) {
        struct chunk_cache_ent *ent = protect_chunk((k * 2 + self) % CHUNKS);
        for (unsigned i = 0; i < CHUNK_SIZE; i++)
            sum += ent->data[i];
    }
    return (void *)(uintptr_t)sum;
}

static void create_file(void) {
    snprintf(file.name, sizeof file.name, "/tmp/h5-%d.dat", (int)getpid());
    file.fd = open(file.name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (unsigned i = 0; i < CHUNKS; i++) {
        unsigned char data[CHUNK_SIZE];
        for (unsigned j = 0; j < CHUNK_SIZE; j++)
            data[j] = (unsigned char)(i * 31 + j);
        struct chunk_hdr h = { i, CHUNK_SIZE, checksum(data, CHUNK_SIZE) };
        if (write(file.fd, &h, sizeof h) != sizeof h || write(file.fd, data, CHUNK_SIZE) != CHUNK_SIZE)
            exit(2);
    }
    unlink(file.name);
}

int main(void) {
    pthread_t t[READERS];
    unsigned total = 0;
    void *sum;
    create_file();
    for (int i = 1; i < READERS; i++)
        pthread_create(&t[i], NULL, dataset_read, (void *)(uintptr_t)i);
    total += (unsigned)(uintptr_t)dataset_read(NULL);
    for (int i = 1; i < READERS; i++) {
        pthread_join(t[i], &sum);
        total += (unsigned)(uintptr_t)sum;
    }
    printf("hits %u misses %u sum %u\n", file.hits, file.misses, total);
    close(file.fd);
    return file.bad == 0 && file.misses == CHUNKS ? 0 : 1;
}
