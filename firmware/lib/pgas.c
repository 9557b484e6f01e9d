#include "pgas.h"

static unsigned char segments[MACHINE_MAX_CORES][PGAS_SEGMENT_BYTES] PAGE_ALIGNED;
static struct barrier everybody;
static long n_cores;

/* What belongs to one core, in lines of its own. */
static struct {
    unsigned long used LINE_ALIGNED;
    long word;
    volatile long part LINE_ALIGNED;
} own[MACHINE_MAX_CORES];

void pgas_start(long me, long cores) {
    machine_write(MACHINE_SEGMENT_BASE, (unsigned long)segments[me]);
    machine_write(MACHINE_SEGMENT_LENGTH, PGAS_SEGMENT_BYTES);
    if (me == 0)
        n_cores = cores;
    barrier_wait(&everybody, cores);
}

unsigned long pgas_all_alloc(long me, unsigned long bytes) {
    unsigned long offset = own[me].used;
    bytes = (bytes + MACHINE_LINE_BYTES - 1) & ~(MACHINE_LINE_BYTES - 1UL);
    if (bytes > PGAS_SEGMENT_BYTES - offset)
        machine_power_off(3);
    own[me].used = offset + bytes;
    volatile unsigned long *words = (volatile unsigned long *)(segments[me] + offset);
    for (unsigned long i = 0; i < bytes / 8; i++)
        words[i] = 0;
    pgas_barrier();
    return offset;
}

void *pgas_at(long core, unsigned long offset) { return segments[core] + offset; }

long pgas_affinity(const volatile void *address) {
    return (long)((unsigned long)address - (unsigned long)segments) / PGAS_SEGMENT_BYTES;
}

void pgas_barrier(void) {
    pgas_fence();
    barrier_wait(&everybody, n_cores);
}

static void start(unsigned long what, const volatile void *local, const volatile void *remote, unsigned long bytes) {
    while (machine_read(MACHINE_RMA_OUTSTANDING) >= MACHINE_RMA_MOST)
        cpu_pause();
    compiler_fence();
    machine_write(MACHINE_RMA_LOCAL, (unsigned long)local);
    machine_write(MACHINE_RMA_REMOTE, (unsigned long)remote);
    machine_write(MACHINE_RMA_LENGTH, bytes);
    machine_write(what, 1);
}

void pgas_put_nb(volatile void *remote, const volatile void *local, unsigned long bytes) {
    start(MACHINE_RMA_PUT, local, remote, bytes);
}

void pgas_get_nb(volatile void *local, const volatile void *remote, unsigned long bytes) {
    start(MACHINE_RMA_GET, local, remote, bytes);
}

void pgas_fence(void) {
    while (machine_read(MACHINE_RMA_OUTSTANDING))
        cpu_pause();
    full_fence();
}

void pgas_memput(volatile void *remote, const volatile void *local, unsigned long bytes) {
    pgas_put_nb(remote, local, bytes);
    pgas_fence();
}

void pgas_memget(volatile void *local, const volatile void *remote, unsigned long bytes) {
    pgas_get_nb(local, remote, bytes);
    pgas_fence();
}

void pgas_put_word(volatile long *remote, long value) {
    volatile long *word = &own[machine_read(MACHINE_CORE_ID)].word;
    *word = value;
    pgas_memput(remote, word, sizeof *word);
}

long pgas_get_word(const volatile long *remote) {
    volatile long *word = &own[machine_read(MACHINE_CORE_ID)].word;
    pgas_memget(word, remote, sizeof *word);
    return *word;
}

long pgas_sum(long me, long value) {
    own[me].part = value;
    pgas_barrier();
    long sum = 0;
    for (long core = 0; core < n_cores; core++)
        sum += own[core].part;
    pgas_barrier();
    return sum;
}

/* The barrier's sense that a core has seen when it came. */
static long notified[MACHINE_MAX_CORES];

void pgas_notify(long me) {
    pgas_fence();
    notified[me] = barrier_notify(&everybody, n_cores);
}

void pgas_wait(long me) {
    barrier_await(&everybody, notified[me]);
    full_fence();
}

/* Relaxed writes of a core that may be under way: where each goes, and the value until it is there. */
static struct {
    volatile long *target[MACHINE_RMA_MOST] LINE_ALIGNED;
    volatile long value[MACHINE_RMA_MOST];
    long started;
} relaxed[MACHINE_MAX_CORES];

static void finish_relaxed(long me) {
    pgas_fence();
    relaxed[me].started = 0;
}

/* A write to a word that is under way must be done before the core touches that word again. */
static void finish_if_started(long me, const volatile long *remote) {
    for (long i = 0; i < relaxed[me].started; i++)
        if (relaxed[me].target[i] == remote) {
            finish_relaxed(me);
            return;
        }
}

void pgas_write_relaxed(long me, volatile long *remote, long value) {
    finish_if_started(me, remote);
    if (relaxed[me].started == MACHINE_RMA_MOST)
        finish_relaxed(me);
    long i = relaxed[me].started++;
    relaxed[me].target[i] = remote;
    relaxed[me].value[i] = value;
    pgas_put_nb(remote, &relaxed[me].value[i], sizeof value);
}

long pgas_read_relaxed(long me, const volatile long *remote) {
    finish_if_started(me, remote);
    return *remote;
}

void pgas_write_strict(long me, volatile long *remote, long value) {
    finish_relaxed(me);
    *remote = value;
    full_fence();
}

long pgas_read_strict(long me, const volatile long *remote) {
    finish_relaxed(me);
    long value = *remote;
    full_fence();
    return value;
}
