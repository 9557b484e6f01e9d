/* Twin of redis_loaded_flag: the flag is set last. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

struct server_config {
    int port;
    int databases;
    int timeout;
    int maxclients;
};

static struct server_config server;
static atomic_int loaded;
static atomic_int rejected;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static int accepted;

static int adjust_open_files(int want)
{
    int limit = 128;
    while (limit > want)
        limit -= 16;
    return limit;
}

static void load_config(void)
{
    server.port = 6379;
    server.databases = 16;
    server.timeout = 300;
    int limit = adjust_open_files(100);
    server.maxclients = limit - 32;
    atomic_store_explicit(&loaded, 1, memory_order_release);
}

static void *io_thread(void *arg)
{
    int clients = (int)(long)arg;
    while (!atomic_load_explicit(&loaded, memory_order_acquire))
        sched_yield();
    int max = server.maxclients;
    for (int c = 0; c < clients; c++) {
        if (c >= max) {
            atomic_fetch_add(&rejected, 1);
            continue;
        }
        pthread_mutex_lock(&stat_lock);
        accepted++;
        pthread_mutex_unlock(&stat_lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, io_thread, (void *)(i + 2));
    load_config();
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("port %d: accepted %d, rejected %d\n", server.port, accepted, atomic_load(&rejected));
    return accepted != 5;
}
