/* correct twin of postgres_clog_truncate: txid_status holds the truncation lock from the check of the id to the end of the look-up */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { XACTS_PER_PAGE = 8, PAGES = 8, NEXT_XID = 60 };
enum status { IN_PROGRESS, COMMITTED, ABORTED, TOO_OLD, LOST };

static struct {
    pthread_mutex_t lock;
    uint32_t oldest_xid, next_xid, oldest_clog_xid;
} ShmemVariableCache = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_xid = NEXT_XID };

struct clog_page {
    unsigned char status[XACTS_PER_PAGE];
};

static struct {
    pthread_mutex_t lock;
    struct clog_page *page[PAGES];
    unsigned truncated;
} clog_ctl = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_rwlock_t CLogTruncationLock = PTHREAD_RWLOCK_INITIALIZER;

static enum status clog_get_status(uint32_t xid) {
    enum status s = LOST;
    pthread_mutex_lock(&clog_ctl.lock);
    struct clog_page *p = clog_ctl.page[xid / XACTS_PER_PAGE];
    if (p)
        s = p->status[xid % XACTS_PER_PAGE];
    pthread_mutex_unlock(&clog_ctl.lock);
    return s;
}

static void clog_set_status(uint32_t xid, enum status s) {
    pthread_mutex_lock(&clog_ctl.lock);
    struct clog_page **p = &clog_ctl.page[xid / XACTS_PER_PAGE];
    if (!*p)
        *p = calloc(1, sizeof **p);
    (*p)->status[xid % XACTS_PER_PAGE] = (unsigned char)s;
    pthread_mutex_unlock(&clog_ctl.lock);
}

static int xid_in_recent_past(uint32_t xid) {
    pthread_mutex_lock(&ShmemVariableCache.lock);
    int recent = xid >= ShmemVariableCache.oldest_clog_xid && xid < ShmemVariableCache.next_xid;
    pthread_mutex_unlock(&ShmemVariableCache.lock);
    return recent;
}

static enum status txid_status(uint32_t xid) {
    enum status s = TOO_OLD;
    pthread_rwlock_rdlock(&CLogTruncationLock);
    if (xid_in_recent_past(xid))
        s = clog_get_status(xid);
    pthread_rwlock_unlock(&CLogTruncationLock);
    return s;
}

static void vac_truncate_clog(uint32_t frozen_xid) {
    pthread_rwlock_wrlock(&CLogTruncationLock);
    pthread_mutex_lock(&ShmemVariableCache.lock);
    ShmemVariableCache.oldest_clog_xid = frozen_xid;
    pthread_mutex_unlock(&ShmemVariableCache.lock);
    pthread_mutex_lock(&clog_ctl.lock);
    for (uint32_t i = 0; i < frozen_xid / XACTS_PER_PAGE; i++) {
        free(clog_ctl.page[i]);
        if (clog_ctl.page[i])
            clog_ctl.truncated++;
        clog_ctl.page[i] = NULL;
    }
    pthread_mutex_unlock(&clog_ctl.lock);
    pthread_mutex_lock(&ShmemVariableCache.lock);
    ShmemVariableCache.oldest_xid = frozen_xid;
    pthread_mutex_unlock(&ShmemVariableCache.lock);
    pthread_rwlock_unlock(&CLogTruncationLock);
}

static void *vacuum(void *arg) {
    (void)arg;
    for (uint32_t frozen = 8; frozen <= 40; frozen += 16)
        vac_truncate_clog(frozen);
    return NULL;
}

struct backend {
    uint32_t first, step;
    unsigned known, too_old, lost;
};

static void *backend_main(void *arg) {
    struct backend *b = arg;
    for (uint32_t xid = b->first; xid >= b->step; xid -= b->step) {
        enum status s = txid_status(xid);
        if (s == TOO_OLD) {
            b->too_old++;
        } else if (s == (xid % 3 == 0 ? ABORTED : COMMITTED)) {
            b->known++;
        } else {
            fprintf(stderr, "could not access status of transaction %u\n", xid);
            b->lost++;
        }
    }
    return NULL;
}

int main(void) {
    struct backend b[2] = { { .first = 59, .step = 9 }, { .first = 55, .step = 7 } };
    pthread_t t[2], v;
    for (uint32_t xid = 0; xid < NEXT_XID; xid++)
        clog_set_status(xid, xid % 3 == 0 ? ABORTED : COMMITTED);
    pthread_create(&v, NULL, vacuum, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, backend_main, &b[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    pthread_join(v, NULL);
    printf("%u known, %u too old, %u lost, %u pages truncated\n", b[0].known + b[1].known,
           b[0].too_old + b[1].too_old, b[0].lost + b[1].lost, clog_ctl.truncated);
    return b[0].lost + b[1].lost == 0 && clog_ctl.truncated == 5 ? 0 : 1;
}
