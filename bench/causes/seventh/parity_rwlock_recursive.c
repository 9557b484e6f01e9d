/* class: deadlock via a reader-writer lock (recursive read lock); fails by: hang; cause: block_status holds the chain lock for reading and calls block_number, which takes it for reading once more; the importer asks for the write lock in between, the second read lock queues behind the writer and the writer behind the first */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MAX_BLOCKS = 32, IMPORTS = 6, QUERIES = 6, RPC_THREADS = 2 };

struct block {
    uint64_t hash, parent;
    unsigned number;
    unsigned txs;
};

struct chain {
    pthread_rwlock_t lock;
    struct block blocks[MAX_BLOCKS];
    unsigned n_blocks;
    uint64_t best;
};

struct client {
    struct chain chain;
    pthread_mutex_t report_lock;
    unsigned imported, queries, known;
};

static struct client client = { .report_lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t block_hash(uint64_t parent, unsigned number) {
    uint64_t h = 0xcbf29ce484222325u ^ parent;
    for (int i = 0; i < 16; i++)
        h = (h ^ (number + (unsigned)i)) * 0x100000001b3u;
    return h;
}

static const struct block *find_block(const struct chain *c, uint64_t hash) {
    for (unsigned i = 0; i < c->n_blocks; i++)
        if (c->blocks[i].hash == hash)
            return &c->blocks[i];
    return NULL;
}

static void append_block(struct chain *c) {
    struct block *b = &c->blocks[c->n_blocks];
    b->parent = c->best;
    b->number = c->n_blocks;
    b->hash = block_hash(b->parent, b->number);
    b->txs = b->number * 3;
    c->n_blocks++;
    c->best = b->hash;
}

static void chain_init(struct chain *c) {
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&c->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    append_block(c);
}

static int block_number(struct chain *c, uint64_t hash) {
    pthread_rwlock_rdlock(&c->lock); // CAUSE
    const struct block *b = find_block(c, hash);
    int n = b ? (int)b->number : -1;
    pthread_rwlock_unlock(&c->lock);
    return n;
}

static bool block_status(struct client *cl, unsigned depth) {
    struct chain *c = &cl->chain;
    bool ok = true;
    pthread_rwlock_rdlock(&c->lock); // CAUSE
    uint64_t hash = c->best;
    for (unsigned i = 0; i < depth && ok; i++) {
        const struct block *b = find_block(c, hash);
        if (!b)
            break;
        ok = block_number(c, hash) == (int)b->number;
        hash = b->parent;
    }
    pthread_rwlock_unlock(&c->lock);
    return ok;
}

static void *rpc_thread(void *arg) {
    struct client *cl = arg;
    for (unsigned i = 0; i < QUERIES; i++) {
        bool ok = block_status(cl, 1 + i % 2);
        pthread_mutex_lock(&cl->report_lock);
        cl->queries++;
        if (ok)
            cl->known++;
        pthread_mutex_unlock(&cl->report_lock);
    }
    return NULL;
}

static void *import_thread(void *arg) {
    struct client *cl = arg;
    for (int i = 0; i < IMPORTS; i++) {
        pthread_rwlock_wrlock(&cl->chain.lock); // CAUSE
        append_block(&cl->chain);
        pthread_rwlock_unlock(&cl->chain.lock);
        pthread_mutex_lock(&cl->report_lock);
        cl->imported++;
        pthread_mutex_unlock(&cl->report_lock);
    }
    return NULL;
}

int main(void) {
    pthread_t t[RPC_THREADS + 1];
    chain_init(&client.chain);
    for (int i = 0; i < RPC_THREADS; i++)
        pthread_create(&t[i], NULL, rpc_thread, &client);
    pthread_create(&t[RPC_THREADS], NULL, import_thread, &client);
    for (int i = 0; i <= RPC_THREADS; i++)
        pthread_join(t[i], NULL);
    printf("imported %u known %u of %u\n", client.imported, client.known, client.queries);
    return client.known == client.queries && client.chain.n_blocks == IMPORTS + 1 ? 0 : 1;
}
