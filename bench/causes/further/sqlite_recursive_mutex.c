/* class: self-made lock (recursive mutex, owner cleared after the unlock); fails by: deadlock;
 * cause: thread 1 unlocks the mutex and only then clears the owner; if thread 2 locks the mutex and enters itself as
 * owner in between, thread 1 wipes that out, and thread 2's nested enter does not know itself and locks again. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 3
#define WRITES 20
#define PAGES 8

struct rmutex {
    pthread_mutex_t m;
    atomic_int owner;
    int depth;
};

static struct rmutex db_mutex = { .m = PTHREAD_MUTEX_INITIALIZER };
static _Thread_local int self_id;

static unsigned pages[PAGES];
static unsigned journal_entries;
static unsigned change_counter;

static void mutex_enter(struct rmutex *p)
{
    if (atomic_load(&p->owner) == self_id) { // CAUSE
        p->depth++;
        return;
    }
    pthread_mutex_lock(&p->m);
    atomic_store(&p->owner, self_id); // CAUSE
    p->depth = 1;
}

static void mutex_leave(struct rmutex *p)
{
    if (--p->depth > 0)
        return;
    pthread_mutex_unlock(&p->m); // CAUSE
    atomic_store(&p->owner, 0); // CAUSE
}

static void journal_page(int no)
{
    mutex_enter(&db_mutex);
    journal_entries++;
    change_counter += (unsigned)no;
    mutex_leave(&db_mutex);
}

static void write_page(int no, unsigned v)
{
    mutex_enter(&db_mutex);
    pages[no] += v;
    journal_page(no);
    mutex_leave(&db_mutex);
}

static void *connection(void *arg)
{
    self_id = (int)(long)arg;
    for (int i = 0; i < WRITES; i++)
        write_page((i + self_id) % PAGES, 1);
    return NULL;
}

int main(void)
{
    pthread_t th[THREADS];
    unsigned total = 0;

    self_id = THREADS + 1;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&th[i], NULL, connection, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(th[i], NULL);
    for (int i = 0; i < PAGES; i++)
        total += pages[i];
    if (total != THREADS * WRITES || journal_entries != total) {
        printf("FAIL: %u writes, %u journal entries\n", total, journal_entries);
        return 1;
    }
    printf("ok: %u writes, change counter %u\n", total, change_counter);
    return 0;
}
