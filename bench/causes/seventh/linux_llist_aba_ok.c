/* repaired twin of linux_llist_aba.c */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { REQUESTS = 4, ROUNDS = 6, THREADS = 3, PAYLOAD = 16 };

struct llist_node {
    struct llist_node *next;
};

struct llist_head {
    struct llist_node *first;
    pthread_mutex_t del_lock;
};

struct request {
    struct llist_node free_entry;
    unsigned tag;
    int busy;
    unsigned char data[PAYLOAD];
};

struct host {
    struct llist_head free_list;
    struct request reqs[REQUESTS];
    int conflicts, starved, completed;
};

static struct host host;

static void llist_add(struct llist_head *h, struct llist_node *n) {
    struct llist_node *first = __atomic_load_n(&h->first, __ATOMIC_SEQ_CST);
    do
        __atomic_store_n(&n->next, first, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(&h->first, &first, n, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

static struct llist_node *llist_del_first(struct llist_head *h) {
    struct llist_node *entry, *next;
    pthread_mutex_lock(&h->del_lock);
    entry = __atomic_load_n(&h->first, __ATOMIC_SEQ_CST);
    do {
        if (!entry)
            break;
        next = __atomic_load_n(&entry->next, __ATOMIC_SEQ_CST);
    } while (!__atomic_compare_exchange_n(&h->first, &entry, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    pthread_mutex_unlock(&h->del_lock);
    return entry;
}

static struct request *get_request(struct host *h) {
    struct llist_node *n = llist_del_first(&h->free_list);
    if (!n) {
        __atomic_fetch_add(&h->starved, 1, __ATOMIC_SEQ_CST);
        return NULL;
    }
    struct request *rq = (struct request *)((char *)n - offsetof(struct request, free_entry));
    if (__atomic_exchange_n(&rq->busy, 1, __ATOMIC_SEQ_CST))
        __atomic_fetch_add(&h->conflicts, 1, __ATOMIC_SEQ_CST);
    return rq;
}

static void put_request(struct host *h, struct request *rq) {
    if (!rq)
        return;
    __atomic_store_n(&rq->busy, 0, __ATOMIC_SEQ_CST);
    llist_add(&h->free_list, &rq->free_entry);
}

static void fill(struct request *rq, unsigned seed) {
    if (!rq)
        return;
    for (unsigned i = 0; i < PAYLOAD; i++)
        rq->data[i] = (unsigned char)(seed * i + rq->tag);
    __atomic_fetch_add(&host.completed, 1, __ATOMIC_SEQ_CST);
}

static void *submitter(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;
    for (unsigned r = 0; r < ROUNDS; r++) {
        struct request *cmd = get_request(&host);
        struct request *sense = get_request(&host);
        fill(cmd, self + r);
        put_request(&host, cmd);
        fill(sense, self * r);
        put_request(&host, sense);
    }
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    int n_free = 0;
    pthread_mutex_init(&host.free_list.del_lock, NULL);
    for (unsigned i = 0; i < REQUESTS; i++) {
        host.reqs[i].tag = i;
        llist_add(&host.free_list, &host.reqs[i].free_entry);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, submitter, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (struct llist_node *n = host.free_list.first; n && n_free <= REQUESTS; n = n->next)
        n_free++;
    printf("completed %d starved %d free %d conflicts %d\n", host.completed, host.starved, n_free, host.conflicts);
    return host.conflicts == 0 && n_free == REQUESTS ? 0 : 1;
}
