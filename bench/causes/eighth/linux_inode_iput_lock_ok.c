/* correct twin of linux_inode_iput_lock: the walker drops its reference before it takes the inode list lock again */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { INODES = 4, PAGES = 8 };

struct inode {
    struct inode *prev, *next;
    unsigned long ino;
    int i_count;
    unsigned nrpages;
    unsigned char pages[PAGES];
};

static struct super_block {
    pthread_mutex_t s_inode_list_lock;
    struct inode s_inodes;
    unsigned nr_inodes;
} sb = { .s_inode_list_lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
    pthread_mutex_t lock;
    unsigned evicted, dropped, written;
} vmstat = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void count(unsigned *field, unsigned n) {
    pthread_mutex_lock(&vmstat.lock);
    *field += n;
    pthread_mutex_unlock(&vmstat.lock);
}

static struct inode *new_inode(unsigned long ino) {
    struct inode *inode = calloc(1, sizeof *inode);
    inode->ino = ino;
    inode->i_count = 1;
    for (unsigned i = 0; i < PAGES; i++)
        inode->pages[i] = (unsigned char)(ino + i);
    inode->nrpages = PAGES;
    pthread_mutex_lock(&sb.s_inode_list_lock);
    inode->next = &sb.s_inodes;
    inode->prev = sb.s_inodes.prev;
    inode->prev->next = inode;
    sb.s_inodes.prev = inode;
    sb.nr_inodes++;
    pthread_mutex_unlock(&sb.s_inode_list_lock);
    return inode;
}

static void evict(struct inode *inode) {
    pthread_mutex_lock(&sb.s_inode_list_lock);
    inode->prev->next = inode->next;
    inode->next->prev = inode->prev;
    sb.nr_inodes--;
    pthread_mutex_unlock(&sb.s_inode_list_lock);
    count(&vmstat.evicted, 1);
    free(inode);
}

static int iget_not_zero(struct inode *inode) {
    int c = __atomic_load_n(&inode->i_count, __ATOMIC_RELAXED);
    while (c > 0)
        if (__atomic_compare_exchange_n(&inode->i_count, &c, c + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return 1;
    return 0;
}

static void iput(struct inode *inode) {
    if (inode && __atomic_sub_fetch(&inode->i_count, 1, __ATOMIC_ACQ_REL) == 0)
        evict(inode);
}

static void invalidate_mapping_pages(struct inode *inode) {
    unsigned n = __atomic_exchange_n(&inode->nrpages, 0, __ATOMIC_ACQ_REL);
    count(&vmstat.dropped, n);
}

static void *drop_pagecache_sb(void *arg) {
    struct inode *inode, *toput = NULL;
    (void)arg;
    pthread_mutex_lock(&sb.s_inode_list_lock);
    for (inode = sb.s_inodes.next; inode != &sb.s_inodes; inode = inode->next) {
        if (!__atomic_load_n(&inode->nrpages, __ATOMIC_ACQUIRE) || !iget_not_zero(inode))
            continue;
        pthread_mutex_unlock(&sb.s_inode_list_lock);
        invalidate_mapping_pages(inode);
        iput(toput);
        pthread_mutex_lock(&sb.s_inode_list_lock);
        toput = inode;
    }
    pthread_mutex_unlock(&sb.s_inode_list_lock);
    iput(toput);
    return NULL;
}

static void *close_files(void *arg) {
    struct inode **files = arg;
    for (int i = 0; i < INODES; i++) {
        unsigned sum = 0;
        for (unsigned p = 0; p < PAGES; p++)
            sum += files[i]->pages[p];
        count(&vmstat.written, sum);
        iput(files[i]);
    }
    return NULL;
}

int main(void) {
    struct inode *files[INODES];
    pthread_t walker, closer;
    sb.s_inodes.next = sb.s_inodes.prev = &sb.s_inodes;
    for (unsigned i = 0; i < INODES; i++)
        files[i] = new_inode(100 + i);
    pthread_create(&walker, NULL, drop_pagecache_sb, NULL);
    pthread_create(&closer, NULL, close_files, files);
    pthread_join(walker, NULL);
    pthread_join(closer, NULL);
    printf("evicted %u dropped %u written %u\n", vmstat.evicted, vmstat.dropped, vmstat.written);
    return vmstat.evicted == INODES && sb.nr_inodes == 0 && vmstat.written == 3360 ? 0 : 1;
}
