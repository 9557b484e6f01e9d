/* class: broken double-checked initialisation (flag set before the data); fails by: SIGSEGV;
 * cause: the first thread sets err_inited inside the lock before it stores the table; a second thread that looks in
 * between sees the flag, skips the lock, loads the table pointer, still NULL, and follows it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 3
#define NERR 48
#define LOOKUPS 20

struct err_entry {
    unsigned code;
    unsigned lib;
    char reason[8];
};

static pthread_mutex_t err_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int err_inited;
static _Atomic(struct err_entry *) err_table;
static unsigned long found[THREADS];

static struct err_entry *build_table(void)
{
    struct err_entry *t = calloc(NERR, sizeof *t);
    for (unsigned i = 0; i < NERR; i++) {
        t[i].code = (i * 29) % NERR;
        t[i].lib = i % 5;
        t[i].reason[0] = 'E';
        t[i].reason[1] = (char)('0' + i / 10);
        t[i].reason[2] = (char)('0' + i % 10);
    }
    return t;
}

static void err_load_strings(void)
{
    pthread_mutex_lock(&err_lock);
    if (!atomic_load(&err_inited)) {
        atomic_store(&err_inited, 1); // CAUSE
        atomic_store(&err_table, build_table()); // CAUSE
    }
    pthread_mutex_unlock(&err_lock);
}

static const struct err_entry *err_get(unsigned code)
{
    if (!atomic_load(&err_inited)) // CAUSE
        err_load_strings();
    const struct err_entry *t = atomic_load(&err_table); // CAUSE
    for (int i = 0; i < NERR; i++)
        if (t[i].code == code)
            return &t[i];
    return NULL;
}

static void *handshake(void *arg)
{
    int id = (int)(long)arg;
    for (unsigned i = 0; i < LOOKUPS; i++) {
        const struct err_entry *e = err_get((i * 11 + (unsigned)id) % NERR);
        if (e && e->reason[0] == 'E')
            found[id]++;
    }
    return NULL;
}

int main(void)
{
    pthread_t th[THREADS];
    unsigned long sum = 0;

    for (long i = 0; i < THREADS; i++)
        pthread_create(&th[i], NULL, handshake, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(th[i], NULL);
        sum += found[i];
    }
    if (sum != THREADS * LOOKUPS) {
        printf("FAIL: %lu strings found, expected %d\n", sum, THREADS * LOOKUPS);
        return 1;
    }
    printf("ok: %lu strings\n", sum);
    free(atomic_load(&err_table));
    return 0;
}
