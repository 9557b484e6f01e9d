/* correct twin of wiredtiger_hazard: the reader checks the state again after it has published its hazard pointer */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SESSIONS 2
#define READS 4
#define MAGIC 0x57549a6e

enum { REF_DISK, REF_LOCKED, REF_MEM };

struct page { long lru, entries; volatile int magic; int rows[4]; };
struct ref { atomic_int state; _Atomic(struct page *) page; };
struct session { _Atomic(struct page *) hazard; long sum; };

static struct ref root;
static struct session sessions[SESSIONS];
static atomic_int active = SESSIONS;

static void page_in(struct ref *ref)
{
    int disk = REF_DISK;
    if (!atomic_compare_exchange_strong(&ref->state, &disk, REF_LOCKED))
        return;
    struct page *p = calloc(1, sizeof *p);
    for (int i = 0; i < 4; i++)
        p->rows[i] = i + 1;
    p->magic = MAGIC;
    atomic_store(&ref->page, p);
    atomic_store(&ref->state, REF_MEM);
}

static struct page *page_get(struct session *s, struct ref *ref)
{
    for (;;) {
        int st = atomic_load(&ref->state);
        if (st == REF_MEM) {
            struct page *p = atomic_load(&ref->page);
            atomic_store(&s->hazard, p);
            if (atomic_load(&ref->state) == REF_MEM && atomic_load(&ref->page) == p)
                return p;
            atomic_store(&s->hazard, NULL);
        }
        if (st == REF_DISK)
            page_in(ref);
        else
            sched_yield();
    }
}

static void evict(struct ref *ref)
{
    int mem = REF_MEM;
    if (!atomic_compare_exchange_strong(&ref->state, &mem, REF_LOCKED))
        return;
    struct page *p = atomic_load(&ref->page);
    for (int i = 0; i < SESSIONS; i++)
        if (atomic_load(&sessions[i].hazard) == p) {
            atomic_store(&ref->state, REF_MEM);
            return;
        }
    atomic_store(&ref->page, NULL);
    p->magic = 0;
    free(p);
    atomic_store(&ref->state, REF_DISK);
}

static void *cursor(void *arg)
{
    struct session *s = arg;
    for (int n = 0; n < READS; n++) {
        struct page *p = page_get(s, &root);
        assert(p != NULL && p->magic == MAGIC);
        for (int i = 0; i < 4; i++)
            s->sum += p->rows[i];
        atomic_store(&s->hazard, NULL);
    }
    atomic_fetch_sub(&active, 1);
    return NULL;
}

static void *eviction_server(void *arg)
{
    for (int n = 0; n < 6 && atomic_load(&active) > 0; n++) {
        evict(arg);
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t t[SESSIONS], e;
    for (int i = 0; i < SESSIONS; i++)
        pthread_create(&t[i], NULL, cursor, &sessions[i]);
    pthread_create(&e, NULL, eviction_server, &root);
    for (int i = 0; i < SESSIONS; i++)
        pthread_join(t[i], NULL);
    pthread_join(e, NULL);
    for (int i = 0; i < SESSIONS; i++)
        assert(sessions[i].sum == READS * 10);
    return 0;
}
