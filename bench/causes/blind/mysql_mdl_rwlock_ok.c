/* Twin of mysql_mdl_rwlock: DROP takes the metadata lock before LOCK_open. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_rwlock_t mdl = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t LOCK_open = PTHREAD_MUTEX_INITIALIZER;
static int table_exists = 1;
static int open_tables, version;
static atomic_int selects, errors;

static int open_table(void)
{
    int ok;
    pthread_mutex_lock(&LOCK_open);
    ok = table_exists;
    open_tables += ok;
    pthread_mutex_unlock(&LOCK_open);
    return ok;
}

static void *select_rows(void *arg)
{
    int times = (int)(long)arg;
    for (int i = 0; i < times; i++) {
        pthread_rwlock_rdlock(&mdl);
        atomic_fetch_add(&selects, 1);
        if (!open_table())
            atomic_fetch_add(&errors, 1);
        pthread_rwlock_unlock(&mdl);
    }
    return NULL;
}

static void *show_version(void *arg)
{
    int *v = arg;
    pthread_rwlock_rdlock(&mdl);
    *v = version;
    pthread_rwlock_unlock(&mdl);
    return NULL;
}

static void *drop_table(void *arg)
{
    (void)arg;
    pthread_rwlock_wrlock(&mdl);
    pthread_mutex_lock(&LOCK_open);
    table_exists = 0;
    version++;
    pthread_rwlock_unlock(&mdl);
    pthread_mutex_unlock(&LOCK_open);
    return NULL;
}

int main(void)
{
    pthread_t a, b, c;
    int v = 0;
    pthread_create(&a, NULL, select_rows, (void *)2);
    pthread_create(&b, NULL, show_version, &v);
    pthread_create(&c, NULL, drop_table, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL);
    printf("%d selects, %d opened, %d errors, saw version %d\n", atomic_load(&selects), open_tables, atomic_load(&errors), v);
    return open_tables + atomic_load(&errors) != 2;
}
