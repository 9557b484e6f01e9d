/* Twin of redis_static_buf: the buffer is thread-local. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct client {
    unsigned char addr[4];
    char peer_id[20];
};

static struct client clients[2] = { { { 10, 0, 0, 1 }, "" }, { { 192, 168, 7, 25 }, "" } };
static _Thread_local int formatted;
static atomic_int total_formatted;
static pthread_barrier_t tick;

static int put_number(char *p, int v)
{
    int n = 0;
    if (v >= 100)
        p[n++] = (char)('0' + v / 100);
    if (v >= 10)
        p[n++] = (char)('0' + v / 10 % 10);
    p[n++] = (char)('0' + v % 10);
    return n;
}

static const char *format_addr(const unsigned char *a)
{
    static _Thread_local char buf[20];
    int n = 0;
    for (int i = 0; i < 4; i++) {
        n += put_number(buf + n, a[i]);
        buf[n++] = i < 3 ? '.' : 0;
    }
    formatted++;
    return buf;
}

static void set_peer_id(struct client *c)
{
    const char *s = format_addr(c->addr);
    int i = 0;
    while (s[i] && i < 19) {
        c->peer_id[i] = s[i];
        i++;
    }
    c->peer_id[i] = 0;
}

static void *io_thread(void *arg)
{
    for (int i = 0; i < 2; i++)
        set_peer_id(arg);
    atomic_fetch_add(&total_formatted, formatted);
    pthread_barrier_wait(&tick);
    return (void *)(long)(atomic_load(&total_formatted) == 4);
}

int main(void)
{
    pthread_t t[2];
    pthread_barrier_init(&tick, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, io_thread, &clients[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("%s %s %d\n", clients[0].peer_id, clients[1].peer_id, atomic_load(&total_formatted));
    return strcmp(clients[0].peer_id, "10.0.0.1") || strcmp(clients[1].peer_id, "192.168.7.25");
}
