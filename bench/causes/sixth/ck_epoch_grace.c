/* class: epoch reclamation with a grace period one epoch too short; fails by: segfault; cause: a reader pinned in epoch e fetches the record, the writer unlinks it in e, advances to e+1, which that reader does not hinder, and destroys it already there, then the reader uses it */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { READERS = 2, READS = 12, UPDATES = 8, SLAB = UPDATES + 1 };

struct route;
struct route_ops {
    int (*metric)(const struct route *);
};
struct route {
    const struct route_ops *volatile ops;
    int base, cost;
    unsigned long retired;
    struct route *next;
};

struct ck_record {
    atomic_ulong pinned;            /* epoch * 2 + 1, or 0 */
    unsigned long lookups;
};

static atomic_ulong global_epoch = 4;
static struct ck_record records[READERS];
static struct route slab[SLAB];
static _Atomic(struct route *) current_route;
static struct route *limbo;
static unsigned destroyed;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long total_lookups;

static int plain_metric(const struct route *r) {
    return r->base + r->cost;
}
static const struct route_ops plain_ops = { plain_metric };

static void epoch_begin(struct ck_record *r) {
    atomic_store(&r->pinned, atomic_load(&global_epoch) * 2 + 1);
}

static void epoch_end(struct ck_record *r) {
    atomic_store(&r->pinned, 0);
}

static int epoch_try_advance(void) {
    unsigned long g = atomic_load(&global_epoch);
    for (int i = 0; i < READERS; i++) {
        unsigned long p = atomic_load(&records[i].pinned);
        if (p && p / 2 != g)
            return 0;
    }
    atomic_store(&global_epoch, g + 1);
    return 1;
}

static void route_destroy(struct route *r) {
    r->ops = NULL; // CAUSE
    destroyed++;
}

static void epoch_reclaim(void) {
    unsigned long g = atomic_load(&global_epoch);
    struct route **pp = &limbo;
    while (*pp) {
        struct route *r = *pp;
        if (r->retired + 1 <= g) { // CAUSE
            *pp = r->next;
            route_destroy(r);
        } else {
            pp = &r->next;
        }
    }
}

static void route_update(int n) {
    struct route *r = &slab[n];
    r->base = 10 * n;
    r->cost = 100 - 10 * n;
    r->ops = &plain_ops;
    struct route *old = atomic_exchange(&current_route, r);
    if (old) {
        old->retired = atomic_load(&global_epoch);
        old->next = limbo;
        limbo = old;
    }
}

static void *reader(void *arg) {
    struct ck_record *rec = arg;
    long bad = 0;
    for (int i = 0; i < READS; i++) {
        epoch_begin(rec);
        struct route *r = atomic_load(&current_route); // CAUSE
        if (r->ops->metric(r) != 100) // CAUSE
            bad++;
        epoch_end(rec);
        pthread_mutex_lock(&stat_lock);
        total_lookups++;
        pthread_mutex_unlock(&stat_lock);
    }
    return (void *)bad;
}

static void *writer(void *arg) {
    (void)arg;
    for (int i = 1; i <= UPDATES; i++) {
        route_update(i);
        if (i % 2 == 0 && epoch_try_advance())
            epoch_reclaim();
    }
    return NULL;
}

int main(void) {
    pthread_t t[READERS + 1];
    long bad = 0;
    route_update(0);
    for (int i = 0; i < READERS; i++)
        pthread_create(&t[i], NULL, reader, &records[i]);
    pthread_create(&t[READERS], NULL, writer, NULL);
    for (int i = 0; i <= READERS; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad += (long)r;
    }
    printf("lookups %lu destroyed %u bad %ld\n", total_lookups, destroyed, bad);
    return bad ? 1 : 0;
}
