/* Twin of curl_global_init: counter and initialisation are under a lock. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *(*malloc_callback)(size_t);
typedef void (*free_callback)(void *);

static atomic_int initialized;
static malloc_callback volatile Curl_cmalloc;
static free_callback volatile Curl_cfree;
static unsigned ssl_seed;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t share_lock = PTHREAD_MUTEX_INITIALIZER;
static int handles;

static void ssl_init(void)
{
    unsigned s = 17;
    for (int i = 0; i < 20; i++)
        s = s * 1103515245u + 12345u;
    ssl_seed = s;
}

static void global_init(void)
{
    pthread_mutex_lock(&init_lock);
    if (atomic_fetch_add(&initialized, 1) == 0) {
        ssl_init();
        Curl_cmalloc = malloc;
        Curl_cfree = free;
    }
    pthread_mutex_unlock(&init_lock);
}

static int easy_perform(int bytes)
{
    global_init();
    char *buf = Curl_cmalloc((size_t)bytes);
    int sum = 0;
    for (int i = 0; i < bytes; i++)
        sum += buf[i] = (char)(i & 7);
    pthread_mutex_lock(&share_lock);
    handles++;
    pthread_mutex_unlock(&share_lock);
    Curl_cfree(buf);
    return sum;
}

static void *transfer(void *arg)
{
    return (void *)(long)easy_perform((int)(long)arg);
}

int main(void)
{
    pthread_t t[3];
    void *sum;
    long total = 0;
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, transfer, (void *)(8 * (i + 1)));
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &sum);
        total += (long)sum;
    }
    printf("%d handles, sum %ld, seed %08x\n", handles, total, ssl_seed);
    return handles != 3 || total != 168;
}
