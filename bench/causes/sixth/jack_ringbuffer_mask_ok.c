/* repaired twin of jack_ringbuffer_mask.c */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { SIZE = 16, MASK = SIZE - 1, FRAMES = 60, CHUNK = 3 };

struct ringbuffer {
    atomic_uchar buf[SIZE];
    atomic_size_t write_ptr;
    atomic_size_t read_ptr;
};

static struct ringbuffer rb;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned xruns, cycles;
static unsigned produced;

static size_t write_space(struct ringbuffer *r) {
    size_t w = atomic_load(&r->write_ptr);
    size_t rd = atomic_load(&r->read_ptr);
    return ((rd - w + SIZE) & MASK) == 0 ? SIZE - 1 : ((rd - w + SIZE) & MASK) - 1;
}

static size_t read_space(struct ringbuffer *r) {
    size_t rd = atomic_load(&r->read_ptr);
    size_t w = atomic_load(&r->write_ptr);
    return (w - rd + SIZE) & MASK;
}

static size_t rb_write(struct ringbuffer *r, const unsigned char *src, size_t n) {
    size_t room = write_space(r), w = atomic_load(&r->write_ptr);
    if (n > room)
        n = room;
    for (size_t i = 0; i < n; i++)
        atomic_store(&r->buf[(w + i) & MASK], src[i]);
    atomic_store(&r->write_ptr, (w + n) & MASK);
    return n;
}

static size_t rb_read(struct ringbuffer *r, unsigned char *dst, size_t n) {
    size_t avail = read_space(r), rd = atomic_load(&r->read_ptr);
    if (n > avail)
        n = avail;
    for (size_t i = 0; i < n; i++)
        dst[i] = atomic_load(&r->buf[(rd + i) & MASK]);
    atomic_store(&r->read_ptr, (rd + n) & MASK);
    return n;
}

static void count(unsigned *what) {
    pthread_mutex_lock(&stat_lock);
    (*what)++;
    pthread_mutex_unlock(&stat_lock);
}

static void *process(void *arg) {
    unsigned char seq = 0, chunk[CHUNK];
    (void)arg;
    for (int i = 0; i < FRAMES; i++) {
        for (int k = 0; k < CHUNK; k++)
            chunk[k] = (unsigned char)(seq + k);
        size_t n = rb_write(&rb, chunk, CHUNK);
        seq = (unsigned char)(seq + n);
        produced += (unsigned)n;
        count(n == CHUNK ? &cycles : &xruns);
    }
    return NULL;
}

static unsigned consumed;
static unsigned char expect;

static long disk_read(void) {
    unsigned char chunk[5];
    size_t n = rb_read(&rb, chunk, sizeof chunk);
    for (size_t i = 0; i < n; i++)
        if (chunk[i] != expect++)
            return -1;
    consumed += (unsigned)n;
    return (long)n;
}

static void *disk(void *arg) {
    (void)arg;
    for (int i = 0; i < FRAMES; i++)
        if (disk_read() < 0)
            return (void *)1;
    return NULL;
}

int main(void) {
    pthread_t p, d;
    void *bad;
    pthread_create(&p, NULL, process, NULL);
    pthread_create(&d, NULL, disk, NULL);
    pthread_join(p, NULL);
    pthread_join(d, &bad);
    for (int i = 0; i < 4 && !bad; i++)
        if (disk_read() < 0)
            bad = (void *)1;
    printf("produced %u consumed %u xruns %u\n", produced, consumed, xruns);
    if (bad || produced != consumed) {
        puts("samples out of order");
        return 1;
    }
    return 0;
}
