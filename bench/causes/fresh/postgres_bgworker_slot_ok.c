/* correct twin of postgres_bgworker_slot: the slot is marked as in use after it is complete */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SLOTS 6
#define NBACKENDS 2
#define PER 3

typedef int (*entry_fn)(int);

struct bgworker_slot {
    atomic_int in_use;
    int pid;
    int generation;
    char name[16];
    int arg;
    entry_fn entry;
};

static struct bgworker_slot slots[SLOTS];
static pthread_mutex_t register_lock = PTHREAD_MUTEX_INITIALIZER;
static int started, total;

static int vacuum_main(int arg) { return arg + 1; }
static int stats_main(int arg) { return arg + 2; }

static void fill(struct bgworker_slot *s, const char *name, entry_fn entry, int arg)
{
    s->generation++;
    s->pid = 0;
    strncpy(s->name, name, sizeof s->name - 1);
    s->arg = arg;
    s->entry = entry;
}

static int register_worker(const char *name, entry_fn entry, int arg)
{
    int done = 0;
    pthread_mutex_lock(&register_lock);
    for (int i = 0; i < SLOTS && !done; i++) {
        struct bgworker_slot *s = &slots[i];
        if (atomic_load(&s->in_use))
            continue;
        fill(s, name, entry, arg);
        atomic_store(&s->in_use, 1);
        done = 1;
    }
    pthread_mutex_unlock(&register_lock);
    return done;
}

static void *backend(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < PER; i++)
        register_worker(id ? "autovacuum" : "stats", id ? vacuum_main : stats_main, 10 * i);
    return NULL;
}

static void scan_slots(void)
{
    for (int i = 0; i < SLOTS; i++) {
        struct bgworker_slot *s = &slots[i];
        if (!atomic_load(&s->in_use) || s->pid != 0)
            continue;
        total += s->entry(s->arg);
        s->pid = 100 + i;
        started++;
    }
}

int main(void)
{
    pthread_t t[NBACKENDS];
    for (long i = 0; i < NBACKENDS; i++)
        pthread_create(&t[i], NULL, backend, (void *)i);
    while (started < NBACKENDS * PER) {
        scan_slots();
        sched_yield();
    }
    for (int i = 0; i < NBACKENDS; i++)
        pthread_join(t[i], NULL);
    printf("%d\n", total);
    return total != 69;
}
