/* class: torn 128-bit read; fails by: wrong result; cause: the vcpu thread writes the low and then the high half of the remapping entry while the interrupt thread reads both halves without the lock, and pairs a new low half with an old high half */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { ENTRIES = 4, MOVES = 8, IRQS = 16, CPUS = 6 };

struct irte {
    volatile uint64_t lo;    /* vector 0..7, destination 32.. */
    volatile uint64_t hi;    /* source id, validation copy of the destination */
};

struct iommu {
    pthread_mutex_t lock;
    struct irte table[ENTRIES];
    unsigned long updates;
    unsigned flushes;
};

static struct iommu iommu = { .lock = PTHREAD_MUTEX_INITIALIZER };
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned delivered[CPUS];

static uint64_t make_lo(unsigned vec, unsigned dest) {
    return (uint64_t)dest << 32 | vec | 1u << 15;
}

static uint64_t make_hi(unsigned sid, unsigned dest) {
    return (uint64_t)sid << 48 | dest;
}

static void update_irte(struct iommu *mmu, unsigned idx, unsigned vec, unsigned dest) {
    uint64_t lo = make_lo(vec, dest), hi = make_hi(idx + 0x100, dest);
    pthread_mutex_lock(&mmu->lock);
    mmu->table[idx].lo = lo; // CAUSE
    mmu->table[idx].hi = hi; // CAUSE
    mmu->updates++;
    if (mmu->updates % 4 == 0)
        mmu->flushes++;
    pthread_mutex_unlock(&mmu->lock);
}

static int deliver(struct iommu *mmu, unsigned idx) {
    uint64_t lo = mmu->table[idx].lo; // CAUSE
    uint64_t hi = mmu->table[idx].hi; // CAUSE
    unsigned dest = (unsigned)(lo >> 32), check = (unsigned)hi;
    if (dest != check || dest >= CPUS || hi >> 48 != idx + 0x100)
        return -1;
    pthread_mutex_lock(&stat_lock);
    delivered[dest]++;
    pthread_mutex_unlock(&stat_lock);
    return (int)dest;
}

static void *vcpu_thread(void *arg) {
    struct iommu *mmu = arg;
    for (unsigned i = 0; i < MOVES; i++)
        update_irte(mmu, i % ENTRIES, 0x30 + i, (i * 5 + 1) % CPUS);
    return NULL;
}

static void *irq_thread(void *arg) {
    struct iommu *mmu = arg;
    long lost = 0;
    for (unsigned i = 0; i < IRQS; i++) {
        if (deliver(mmu, (i / 2) % ENTRIES) < 0)
            lost++;
    }
    return (void *)lost;
}

int main(void) {
    pthread_t t[3];
    long lost = 0;
    unsigned sum = 0;
    for (unsigned i = 0; i < ENTRIES; i++)
        update_irte(&iommu, i, 0x20 + i, i);
    pthread_create(&t[0], NULL, vcpu_thread, &iommu);
    pthread_create(&t[1], NULL, irq_thread, &iommu);
    pthread_create(&t[2], NULL, irq_thread, &iommu);
    for (int i = 0; i < 3; i++) {
        void *r;
        pthread_join(t[i], &r);
        lost += (long)r;
    }
    for (int i = 0; i < CPUS; i++)
        sum += delivered[i];
    printf("delivered %u updates %lu lost %ld\n", sum, iommu.updates, lost);
    if (lost) {
        puts("interrupt with a half-written entry");
        return 1;
    }
    return 0;
}
