/* correct twin of mysql_delayed_handler: finding a handler counts its user under the lock of the list, and the handler waits until it has none before the last rows are written and it is freed */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 2, ROWS = 2, MAGIC = 0x44454c59 };

struct row {
    struct row *next;
    int value;
};

struct delayed_insert {
    struct delayed_insert *next;
    char table[16];
    unsigned magic;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct row *rows;
    unsigned stacked_inserts;
    int killed, users;
};

static pthread_mutex_t LOCK_delayed_insert = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t COND_unused = PTHREAD_COND_INITIALIZER;
static struct delayed_insert *delayed_threads;
static pthread_mutex_t LOCK_table = PTHREAD_MUTEX_INITIALIZER;
static long table_sum;
static int table_rows;

static void write_row(int value) {
    pthread_mutex_lock(&LOCK_table);
    table_sum += value;
    table_rows++;
    pthread_mutex_unlock(&LOCK_table);
}

static void write_delayed_rows(struct row *r) {
    while (r) {
        struct row *next = r->next;
        write_row(r->value);
        free(r);
        r = next;
    }
}

static void free_handler(struct delayed_insert *di) {
    *(volatile unsigned *)&di->magic = 0;
    pthread_mutex_destroy(&di->mutex);
    pthread_cond_destroy(&di->cond);
    free(di);
}

static void unlink_handler(struct delayed_insert *di) {
    struct delayed_insert **p = &delayed_threads;
    while (*p != di)
        p = &(*p)->next;
    *p = di->next;
}

static void *handle_delayed_insert(void *arg) {
    struct delayed_insert *di = arg;
    pthread_mutex_lock(&di->mutex);
    for (;;) {
        struct row *r = di->rows;
        if (r) {
            di->rows = NULL;
            pthread_mutex_unlock(&di->mutex);
            write_delayed_rows(r);
            pthread_mutex_lock(&di->mutex);
        } else if (di->killed) {
            break;
        } else {
            pthread_cond_wait(&di->cond, &di->mutex);
        }
    }
    pthread_mutex_unlock(&di->mutex);
    pthread_mutex_lock(&LOCK_delayed_insert);
    unlink_handler(di);
    while (di->users)
        pthread_cond_wait(&COND_unused, &LOCK_delayed_insert);
    pthread_mutex_unlock(&LOCK_delayed_insert);
    write_delayed_rows(di->rows);
    free_handler(di);
    return NULL;
}

static struct delayed_insert *find_handler(const char *table) {
    struct delayed_insert *di;
    pthread_mutex_lock(&LOCK_delayed_insert);
    for (di = delayed_threads; di; di = di->next)
        if (strcmp(di->table, table) == 0)
            break;
    if (di)
        di->users++;
    pthread_mutex_unlock(&LOCK_delayed_insert);
    return di;
}

static void insert_delayed(const char *table, int value) {
    struct row *r = malloc(sizeof *r);
    r->value = value;
    struct delayed_insert *di = find_handler(table);
    if (!di) {
        free(r);
        write_row(value);
        return;
    }
    if (*(volatile unsigned *)&di->magic != MAGIC)
        abort();
    pthread_mutex_lock(&di->mutex);
    r->next = di->rows;
    di->rows = r;
    di->stacked_inserts++;
    pthread_cond_signal(&di->cond);
    pthread_mutex_unlock(&di->mutex);
    pthread_mutex_lock(&LOCK_delayed_insert);
    if (--di->users == 0)
        pthread_cond_broadcast(&COND_unused);
    pthread_mutex_unlock(&LOCK_delayed_insert);
}

static void *client(void *arg) {
    int me = *(int *)arg;
    for (int i = 0; i < ROWS; i++)
        insert_delayed("hits", 100 * me + i);
    return NULL;
}

static void flush_tables(void) {
    pthread_mutex_lock(&LOCK_delayed_insert);
    for (struct delayed_insert *di = delayed_threads; di; di = di->next) {
        pthread_mutex_lock(&di->mutex);
        di->killed = 1;
        pthread_cond_signal(&di->cond);
        pthread_mutex_unlock(&di->mutex);
    }
    pthread_mutex_unlock(&LOCK_delayed_insert);
}

int main(void) {
    static int id[CLIENTS] = { 1, 2 };
    pthread_t t[CLIENTS], handler;
    struct delayed_insert *di = calloc(1, sizeof *di);
    strcpy(di->table, "hits");
    di->magic = MAGIC;
    pthread_mutex_init(&di->mutex, NULL);
    pthread_cond_init(&di->cond, NULL);
    delayed_threads = di;
    pthread_create(&handler, NULL, handle_delayed_insert, di);
    flush_tables();
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&t[i], NULL, client, &id[i]);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(t[i], NULL);
    pthread_join(handler, NULL);
    printf("%d rows, sum %ld\n", table_rows, table_sum);
    return table_rows == CLIENTS * ROWS && table_sum == 602 ? 0 : 1;
}
