/* correct twin of mysql_conn_pool_if: the list is looked at again after every wait */
#include <pthread.h>
#include <stdio.h>

#define CLIENTS 3
#define CONNECTIONS 2
#define QUERIES 4

struct connection {
    struct connection *next;
    int id;
    int queries;
    long rows;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t given_back;
    struct connection *free;
    struct connection connection[CONNECTIONS];
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .given_back = PTHREAD_COND_INITIALIZER };

static struct connection *pool_take(void)
{
    pthread_mutex_lock(&pool.mutex);
    while (!pool.free)
        pthread_cond_wait(&pool.given_back, &pool.mutex);
    struct connection *c = pool.free;
    pool.free = c->next;
    c->next = NULL;
    pthread_mutex_unlock(&pool.mutex);
    return c;
}

static void pool_give(struct connection *c)
{
    pthread_mutex_lock(&pool.mutex);
    c->next = pool.free;
    pool.free = c;
    pthread_cond_signal(&pool.given_back);
    pthread_mutex_unlock(&pool.mutex);
}

static int run_query(struct connection *c, int client, int n)
{
    int rows = 0;
    for (int i = 0; i < 30; i++)
        rows = (rows * 5 + client * 3 + n) % 17;
    c->queries++;
    c->rows += rows;
    return rows;
}

struct client {
    int id;
    long rows;
};

static void *client_main(void *arg)
{
    struct client *me = arg;
    for (int n = 0; n < QUERIES; n++) {
        struct connection *c = pool_take();
        me->rows += run_query(c, me->id, n);
        pool_give(c);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[CLIENTS];
    struct client client[CLIENTS];
    long by_clients = 0, by_connections = 0;
    int queries = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        pool.connection[i].id = i;
        pool_give(&pool.connection[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client[i].id = i;
        client[i].rows = 0;
        pthread_create(&t[i], NULL, client_main, &client[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(t[i], NULL);
        by_clients += client[i].rows;
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        queries += pool.connection[i].queries;
        by_connections += pool.connection[i].rows;
    }
    printf("%d queries, %ld rows, %ld counted\n", queries, by_clients, by_connections);
    return queries != CLIENTS * QUERIES || by_clients != by_connections;
}
