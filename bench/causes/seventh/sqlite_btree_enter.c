/* class: deadlock by lock order; fails by: hang; cause: each connection locks its attached shared B-trees in the order of its own list, and two connections have attached the same two trees the other way round */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { TREES = 3, MAX_ATTACHED = 3, CONNS = 3, TRANSACTIONS = 4, CELLS = 16 };

struct btree {
    unsigned id;
    pthread_mutex_t mutex;
    long cells[CELLS];
    unsigned changes;
};

struct connection {
    unsigned id;
    struct btree *main_db;
    struct btree *db[MAX_ATTACHED];
    unsigned n_db;
    unsigned committed;
};

static struct btree trees[TREES];
static struct connection conns[CONNS];
static pthread_mutex_t stat_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned total_commits;

static void attach(struct connection *c, struct btree *bt) {
    unsigned pos = c->n_db++;
    c->db[pos] = bt;
    if (!c->main_db)
        c->main_db = bt;
}

static void btree_enter_first(struct connection *c) {
    pthread_mutex_lock(&c->db[0]->mutex); // CAUSE
}

static void btree_enter_rest(struct connection *c) {
    for (unsigned i = 1; i < c->n_db; i++) {
        pthread_mutex_lock(&c->db[i]->mutex); // CAUSE
    }
}

static void btree_leave_all(struct connection *c) {
    for (unsigned i = c->n_db; i-- > 0;)
        pthread_mutex_unlock(&c->db[i]->mutex);
}

static long prepare_statement(unsigned id, unsigned n) {
    long h = id + 1;
    for (unsigned i = 0; i < 200; i++)
        h = (h * 33 + n + i) & 0xffff;
    return h % 10;
}

static void run_transaction(struct connection *c, unsigned n) {
    long amount = prepare_statement(c->id, n);
    btree_enter_first(c);
    btree_enter_rest(c);
    c->main_db->cells[n % CELLS] -= amount * (long)(c->n_db - 1);
    c->main_db->changes++;
    for (unsigned i = 0; i < c->n_db; i++) {
        if (c->db[i] == c->main_db)
            continue;
        c->db[i]->cells[(n + i) % CELLS] += amount;
        c->db[i]->changes++;
    }
    btree_leave_all(c);
    c->committed++;
    pthread_mutex_lock(&stat_mutex);
    total_commits++;
    pthread_mutex_unlock(&stat_mutex);
}

static void *connection_thread(void *arg) {
    struct connection *c = arg;
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        run_transaction(c, i);
    return NULL;
}

int main(void) {
    pthread_t t[CONNS];
    long sum = 0;
    for (unsigned i = 0; i < TREES; i++) {
        trees[i].id = i;
        pthread_mutex_init(&trees[i].mutex, NULL);
    }
    for (unsigned i = 0; i < CONNS; i++)
        conns[i].id = i;
    attach(&conns[0], &trees[0]);
    attach(&conns[0], &trees[2]);
    attach(&conns[1], &trees[1]);
    attach(&conns[2], &trees[2]);
    attach(&conns[2], &trees[0]);
    for (int i = 0; i < CONNS; i++)
        pthread_create(&t[i], NULL, connection_thread, &conns[i]);
    for (int i = 0; i < CONNS; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < TREES; i++)
        for (unsigned k = 0; k < CELLS; k++)
            sum += trees[i].cells[k];
    printf("commits %u balance %ld\n", total_commits, sum);
    return total_commits == CONNS * TRANSACTIONS && sum == 0 ? 0 : 1;
}
