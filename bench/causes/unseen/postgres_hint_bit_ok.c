/* correct twin of postgres_hint_bit: the reader asks first whether the transaction still runs */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define WRITERS 2
#define READERS 2
#define ROWS 3
#define SCANS 3
#define NXIDS (WRITERS * ROWS)

enum { XID_NONE, XID_COMMITTED };
enum { HINT_NONE, HINT_COMMITTED, HINT_INVALID };

struct tuple { atomic_int filled; int xmin; atomic_int hint; };

static struct tuple heap[NXIDS];
static atomic_int clog_status[NXIDS];

static pthread_mutex_t ProcArrayLock = PTHREAD_MUTEX_INITIALIZER;
static int running[NXIDS];
static atomic_int rows_seen[READERS];

static int is_in_progress(int xid)
{
    pthread_mutex_lock(&ProcArrayLock);
    int r = running[xid];
    pthread_mutex_unlock(&ProcArrayLock);
    return r;
}

static int did_commit(int xid)
{
    return atomic_load(&clog_status[xid]) == XID_COMMITTED;
}

static void begin(int xid)
{
    pthread_mutex_lock(&ProcArrayLock);
    running[xid] = 1;
    pthread_mutex_unlock(&ProcArrayLock);
}

static void commit(int xid)
{
    atomic_store(&clog_status[xid], XID_COMMITTED);
    pthread_mutex_lock(&ProcArrayLock);
    running[xid] = 0;
    pthread_mutex_unlock(&ProcArrayLock);
}

static int visible(struct tuple *t)
{
    int hint = atomic_load(&t->hint);
    if (hint != HINT_NONE)
        return hint == HINT_COMMITTED;
    if (is_in_progress(t->xmin))
        return 0;

    if (did_commit(t->xmin)) {
        atomic_store(&t->hint, HINT_COMMITTED);
        return 1;
    }
    atomic_store(&t->hint, HINT_INVALID);
    return 0;
}

static int scan(void)
{
    int n = 0;
    for (int i = 0; i < NXIDS; i++)
        if (atomic_load(&heap[i].filled))
            n += visible(&heap[i]);
    return n;
}

static void *writer(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < ROWS; i++) {
        int xid = id * ROWS + i;
        begin(xid);
        heap[xid].xmin = xid;
        atomic_store(&heap[xid].filled, 1);
        sched_yield();
        commit(xid);
    }
    return NULL;
}

static void *reader(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < SCANS; i++) {
        atomic_store(&rows_seen[id], scan());
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t w[WRITERS], r[READERS];
    for (long i = 0; i < WRITERS; i++)
        pthread_create(&w[i], NULL, writer, (void *)i);
    for (long i = 0; i < READERS; i++)
        pthread_create(&r[i], NULL, reader, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(w[i], NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(r[i], NULL);
    int n = scan();
    printf("%d of %d rows visible\n", n, NXIDS);
    return n != NXIDS;
}
