/* class: deadlock (lock order, three locks); fails by: deadlock; cause: lookup holds the index and takes the journal, commit holds the journal and takes the pages, and compaction holds the pages and takes the index */
#include <pthread.h>
#include <stdatomic.h>

struct part { pthread_mutex_t lock; int items, version; };

static struct part index_ = { PTHREAD_MUTEX_INITIALIZER, 10, 0 };
static struct part journal = { PTHREAD_MUTEX_INITIALIZER, 4, 0 };
static struct part pages = { PTHREAD_MUTEX_INITIALIZER, 20, 0 };
static atomic_int work;

static void move(struct part *from, struct part *to)
{
    if (from->items > 0) {
        from->items--;
        to->items++;
    }
    from->version++;
    to->version++;
}

static void lookup(void)
{
    pthread_mutex_lock(&index_.lock);             // CAUSE
    atomic_fetch_add(&work, 1);
    pthread_mutex_lock(&journal.lock);            // CAUSE
    move(&index_, &journal);
    pthread_mutex_unlock(&journal.lock);
    pthread_mutex_unlock(&index_.lock);
}

static void commit(void)
{
    pthread_mutex_lock(&journal.lock);            // CAUSE
    atomic_fetch_add(&work, 1);
    pthread_mutex_lock(&pages.lock);              // CAUSE
    move(&journal, &pages);
    pthread_mutex_unlock(&pages.lock);
    pthread_mutex_unlock(&journal.lock);
}

static void compact(void)
{
    pthread_mutex_lock(&pages.lock);              // CAUSE
    atomic_fetch_add(&work, 1);
    pthread_mutex_lock(&index_.lock);             // CAUSE
    move(&pages, &index_);
    pthread_mutex_unlock(&index_.lock);
    pthread_mutex_unlock(&pages.lock);
}

static void *run(void *arg)
{
    void (*const *step)(void) = arg;
    for (int i = 0; i < 4; i++)
        (*step)();
    return NULL;
}

int main(void)
{
    static void (*steps[3])(void) = { lookup, commit, compact };
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, run, &steps[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    return index_.items + journal.items + pages.items != 34 || atomic_load(&work) != 12;
}
