/* correct twin of lmdb_reader_txnid: the reader reads the last transaction id again after it has stored it, and repeats that until both are equal */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 2, COMMITS = 6, PAGES = COMMITS + 2, KEYS = 6 };
#define NO_TXN (~0UL)

struct page {
    _Atomic unsigned long txnid;
    _Atomic int value[KEYS];
};

struct env {
    _Atomic unsigned long mti_txnid;
    _Atomic unsigned long mr_txnid[READERS];
    _Atomic int root[COMMITS + 1]; /* the page of each snapshot */
    struct page page[PAGES];
    int next_fresh;
    struct {
        int page;
        unsigned long freed_by;
    } freelist[COMMITS];
    int freelist_first, freelist_end;
    unsigned reused;
};

static struct env env;

static unsigned long mdb_find_oldest(void) {
    unsigned long oldest = env.mti_txnid;
    for (int i = 0; i < READERS; i++) {
        unsigned long mr = env.mr_txnid[i];
        if (mr < oldest)
            oldest = mr;
    }
    return oldest;
}

static int mdb_page_alloc(void) {
    unsigned long oldest = mdb_find_oldest();
    int i = env.freelist_first;
    if (i < env.freelist_end && env.freelist[i].freed_by <= oldest) {
        env.freelist_first++;
        env.reused++;
        return env.freelist[i].page;
    }
    return env.next_fresh++;
}

static void mdb_txn_commit(void) {
    unsigned long txn = env.mti_txnid + 1;
    int p = mdb_page_alloc();
    env.page[p].txnid = txn;
    for (int k = 0; k < KEYS; k++)
        env.page[p].value[k] = (int)txn * 10 + k;
    env.freelist[env.freelist_end].page = env.root[txn - 1];
    env.freelist[env.freelist_end].freed_by = txn;
    env.freelist_end++;
    env.root[txn] = p;
    env.mti_txnid = txn;
}

static unsigned long mdb_txn_begin(int slot) {
    unsigned long txn;
    do {
        txn = env.mti_txnid;
        env.mr_txnid[slot] = txn;
    } while (txn != env.mti_txnid);
    return txn;
}

static void mdb_txn_end(int slot) {
    env.mr_txnid[slot] = NO_TXN;
}

struct reader {
    pthread_t thread;
    int slot;
    unsigned snapshots, mixed;
};

static void *reader_main(void *arg) {
    struct reader *r = arg;
    for (int i = 0; i < 4; i++) {
        unsigned long txn = mdb_txn_begin(r->slot);
        struct page *p = &env.page[env.root[txn]];
        int mixed = p->txnid != txn;
        for (int k = 0; k < KEYS; k++)
            if (p->value[k] != (int)txn * 10 + k)
                mixed = 1;
        mdb_txn_end(r->slot);
        r->snapshots++;
        r->mixed += (unsigned)mixed;
    }
    return NULL;
}

static void *writer_main(void *arg) {
    (void)arg;
    for (int i = 0; i < COMMITS; i++)
        mdb_txn_commit();
    return NULL;
}

int main(void) {
    struct reader reader[READERS] = { { .slot = 0 }, { .slot = 1 } };
    pthread_t writer;
    unsigned snapshots = 0, mixed = 0;
    for (int i = 0; i < READERS; i++)
        env.mr_txnid[i] = NO_TXN;
    for (int k = 0; k < KEYS; k++)
        env.page[0].value[k] = k;
    env.next_fresh = 1;
    for (int i = 0; i < READERS; i++)
        pthread_create(&reader[i].thread, NULL, reader_main, &reader[i]);
    pthread_create(&writer, NULL, writer_main, NULL);
    for (int i = 0; i < READERS; i++) {
        pthread_join(reader[i].thread, NULL);
        snapshots += reader[i].snapshots;
        mixed += reader[i].mixed;
    }
    pthread_join(writer, NULL);
    printf("%u snapshots read, %u mixed, %u pages used again\n", snapshots, mixed, env.reused);
    return snapshots == 4 * READERS && mixed == 0 ? 0 : 1;
}
