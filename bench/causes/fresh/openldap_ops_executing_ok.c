/* correct twin of openldap_ops_executing: the end of an abandoned operation takes the lock too */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define OPS 4

enum tag { BIND, SEARCH, ABANDON };

struct connection {
    pthread_mutex_t c_mutex;
    int n_ops_received;
    int n_ops_executing;
    int n_ops_completed;
    int n_abandoned;
};

static struct connection conn = { .c_mutex = PTHREAD_MUTEX_INITIALIZER };
static int entries_sent[THREADS];
static int abandon_log[THREADS];

static void op_begin(struct connection *c)
{
    pthread_mutex_lock(&c->c_mutex);
    c->n_ops_received++;
    c->n_ops_executing = c->n_ops_executing + 1;
    pthread_mutex_unlock(&c->c_mutex);
}

static int op_run(enum tag tag, int n)
{
    int sent = 0;
    if (tag == SEARCH)
        for (int i = 0; i < 5; i++)
            sent += (i * n) & 1;
    return sent;
}

static void op_end(struct connection *c)
{
    pthread_mutex_lock(&c->c_mutex);
    c->n_ops_executing--;
    c->n_ops_completed++;
    pthread_mutex_unlock(&c->c_mutex);
}

static void op_end_abandoned(struct connection *c, int id)
{
    pthread_mutex_lock(&c->c_mutex);
    int left = c->n_ops_executing - 1;
    abandon_log[id] = left;
    c->n_ops_executing = left;
    c->n_abandoned++;
    pthread_mutex_unlock(&c->c_mutex);
}

static void *slapd_worker(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < OPS; i++) {
        enum tag tag = (enum tag)((id + i) % 3);
        op_begin(&conn);
        entries_sent[id] += op_run(tag, i);
        if (tag == ABANDON)
            op_end_abandoned(&conn, id);
        else
            op_end(&conn);
    }
    return NULL;
}

static void connection_close(struct connection *c)
{
    assert(c->n_ops_executing == 0);
    assert(c->n_ops_completed + c->n_abandoned == c->n_ops_received);
}

int main(void)
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, slapd_worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert(abandon_log[i] >= 0);
    connection_close(&conn);
    printf("%d operations\n", conn.n_ops_received);
    return 0;
}
