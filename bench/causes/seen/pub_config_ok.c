/* correct twin of pub_config: the ready flag is set last */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct config {
    char host[16];
    int port;
    atomic_int ready;
};

static struct config cfg;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[4][32];
static int nlines;

static void log_line(const char *what, const char *arg)
{
    pthread_mutex_lock(&log_lock);
    strcat(strcpy(lines[nlines++], what), arg);
    pthread_mutex_unlock(&log_lock);
}

static int parse_port(const char *s)
{
    int v = 0;
    for (; *s >= '0' && *s <= '9'; s++)
        v = v * 10 + *s - '0';
    return v;
}

static void load_config(const char *host, const char *port)
{
    strcpy(cfg.host, host);
    log_line("host ", host);
    cfg.port = parse_port(port);
    atomic_store(&cfg.ready, 1);
}

static void *worker(void *arg)
{
    int *port = arg;
    while (!atomic_load(&cfg.ready))
        sched_yield();
    log_line("connect ", cfg.host);
    *port = cfg.port;
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    int port[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, worker, &port[i]);
    load_config("db.local", "5432");
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    if (port[0] != 5432 || port[1] != 5432) {
        printf("connected to ports %d and %d (%d lines)\n", port[0], port[1], nlines);
        return 1;
    }
    return 0;
}
