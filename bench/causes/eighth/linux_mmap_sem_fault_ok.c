/* correct twin of linux_mmap_sem_fault: the ioctl fills a bounce buffer under the object mutex and copies it to user memory after it has dropped the mutex */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VMAS = 4, OBJ_WORDS = 8, FAULTS = 3, IOCTLS = 3, MMAPS = 2 };

static struct mm {
    pthread_rwlock_t mmap_sem;
    struct { unsigned long start, end; } vma[VMAS + MMAPS];
    unsigned map_count;
    unsigned long total_vm;
} mm;

static struct gem_object {
    pthread_mutex_t struct_mutex;
    unsigned pin_count, faults, reads;
    uint32_t pages[OBJ_WORDS];
} obj = { .struct_mutex = PTHREAD_MUTEX_INITIALIZER };

static struct {
    pthread_mutex_t lock;
    unsigned long copied, mapped;
} counters = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int find_vma(unsigned long addr) {
    for (unsigned i = 0; i < mm.map_count; i++)
        if (addr >= mm.vma[i].start && addr < mm.vma[i].end)
            return (int)i;
    return -1;
}

static int gem_fault(unsigned long addr) {
    pthread_rwlock_rdlock(&mm.mmap_sem);
    int ok = find_vma(addr) >= 0;
    if (ok) {
        pthread_mutex_lock(&obj.struct_mutex);
        obj.faults++;
        obj.pages[addr % OBJ_WORDS] |= 0x100;
        pthread_mutex_unlock(&obj.struct_mutex);
    }
    pthread_rwlock_unlock(&mm.mmap_sem);
    return ok;
}

static int copy_to_user(uint32_t *to, const uint32_t *from, unsigned n) {
    pthread_rwlock_rdlock(&mm.mmap_sem);
    int ok = find_vma(0x1000) >= 0;
    if (ok)
        memcpy(to, from, n * sizeof *to);
    pthread_rwlock_unlock(&mm.mmap_sem);
    return ok;
}

static int gem_pread_ioctl(uint32_t *user) {
    uint32_t bounce[OBJ_WORDS];
    pthread_mutex_lock(&obj.struct_mutex);
    obj.pin_count++;
    memcpy(bounce, obj.pages, sizeof bounce);
    obj.reads++;
    obj.pin_count--;
    pthread_mutex_unlock(&obj.struct_mutex);
    int ok = copy_to_user(user, bounce, OBJ_WORDS);
    pthread_mutex_lock(&counters.lock);
    counters.copied += OBJ_WORDS;
    pthread_mutex_unlock(&counters.lock);
    return ok;
}

static void do_mmap(unsigned long start, unsigned long len) {
    pthread_rwlock_wrlock(&mm.mmap_sem);
    mm.vma[mm.map_count].start = start;
    mm.vma[mm.map_count].end = start + len;
    mm.map_count++;
    mm.total_vm += len >> 12;
    pthread_rwlock_unlock(&mm.mmap_sem);
}

static void *render_thread(void *arg) {
    uintptr_t bad = 0;
    (void)arg;
    for (unsigned i = 0; i < FAULTS; i++)
        bad += !gem_fault(0x1000 + i);
    return (void *)bad;
}

static void *ioctl_thread(void *arg) {
    uint32_t user[OBJ_WORDS];
    uintptr_t bad = 0;
    (void)arg;
    for (unsigned i = 0; i < IOCTLS; i++)
        bad += !gem_pread_ioctl(user) || (user[3] & 0xff) != 3;
    return (void *)bad;
}

static void *malloc_thread(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < MMAPS; i++) {
        do_mmap(0x100000 + i * 0x4000UL, 0x4000);
        pthread_mutex_lock(&counters.lock);
        counters.mapped++;
        pthread_mutex_unlock(&counters.lock);
    }
    return NULL;
}

int main(void) {
    void *(*const body[3])(void *) = { render_thread, ioctl_thread, malloc_thread };
    pthread_rwlockattr_t attr;
    pthread_t t[3];
    uintptr_t bad = 0;
    void *rc;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&mm.mmap_sem, &attr);
    for (unsigned i = 0; i < VMAS; i++)
        do_mmap(0x1000 + i * 0x2000UL, 0x2000);
    for (uint32_t i = 0; i < OBJ_WORDS; i++)
        obj.pages[i] = i;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, body[i], NULL);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &rc);
        bad += (uintptr_t)rc;
    }
    printf("faults %u reads %u maps %u\n", obj.faults, obj.reads, mm.map_count);
    return bad == 0 && obj.faults == FAULTS && obj.reads == IOCTLS && mm.map_count == VMAS + MMAPS ? 0 : 1;
}
