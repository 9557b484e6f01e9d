/* correct twin of wwr_scratch: the caller supplies the buffer */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct peer { unsigned addr; char name[16]; };

static atomic_int connections;

static const char *format_addr(unsigned a, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 8; i++)
        text[i] = digits[a >> (28 - 4 * i) & 15];
    text[8] = 0;
    return text;
}

static void accept_peer(struct peer *p, unsigned addr)
{
    p->addr = addr;
    char text[16];
    const char *s = format_addr(addr, text);
    atomic_fetch_add(&connections, 1);
    memcpy(p->name, s, 9);
}

static unsigned parse(const char *s)
{
    unsigned v = 0;
    for (; *s; s++)
        v = v << 4 | (*s <= '9' ? *s - '0' : *s - 'a' + 10);
    return v;
}

static struct peer peers[2][3];

static void *acceptor(void *arg)
{
    struct peer *p = arg;
    for (unsigned i = 0; i < 3; i++)
        accept_peer(&p[i], (p == peers[0] ? 0x0a000001u : 0xc0a80101u) + i);
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, acceptor, peers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert(atomic_load(&connections) == 6);
    for (int i = 0; i < 6; i++)
        assert(parse(peers[i / 3][i % 3].name) == peers[i / 3][i % 3].addr);
    return 0;
}
