/* class: atomicity violation, read-write-read; fails by: segv; cause: SHOW PROCESSLIST tests thd->proc_info
 * and reads it again, while the connection's own thread sets it to NULL at the end of its query.
 * Modelled on MySQL bug 3596 (ha_innodb.cc / sql_show.cc). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct THD {
    int id;
    atomic_int queries;
    const char *volatile proc_info;
    pthread_mutex_t LOCK_thd_data;
};

static struct THD thd = { .id = 7, .LOCK_thd_data = PTHREAD_MUTEX_INITIALIZER };

static void set_proc_info(struct THD *t, const char *s)
{
    t->proc_info = s; // CAUSE
}

static void *connection(void *arg)
{
    static const char *const stages[] = { "Opening tables", "Locked", "Sending data" };
    struct THD *t = arg;
    for (int q = 0; q < 3; q++) {
        set_proc_info(t, stages[q]);
        atomic_fetch_add(&t->queries, 1);
        set_proc_info(t, NULL);
    }
    return NULL;
}

static size_t store_row(char *row, struct THD *t)
{
    size_t n = (size_t)sprintf(row, "%d ", t->id);
    if (t->proc_info) { // CAUSE
        const char *s = t->proc_info; // CAUSE
        for (; *s; s++)
            row[n++] = *s;
    }
    row[n] = 0;
    return n;
}

static void *show_processlist(void *arg)
{
    char row[64];
    size_t total = 0;
    for (int i = 0; i < 3; i++)
        total += store_row(row, arg);
    return (void *)total;
}

int main(void)
{
    pthread_t a, b;
    void *total;
    pthread_create(&a, NULL, connection, &thd);
    pthread_create(&b, NULL, show_processlist, &thd);
    pthread_join(a, NULL);
    pthread_join(b, &total);
    printf("%zu bytes, %d queries\n", (size_t)total, atomic_load(&thd.queries));
    return atomic_load(&thd.queries) != 3;
}
