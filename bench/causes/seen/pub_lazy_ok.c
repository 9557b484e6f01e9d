/* correct twin of pub_lazy: the codec is published when it is complete */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct codec {
    int (*encode)(int);
    int level;
    int window;
};

static struct codec the_codec;
static _Atomic(struct codec *) instance;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int encoded;

static int rot(int v) { return (v << 3 | v >> 5) & 255; }

static struct codec *get_codec(void)
{
    struct codec *c = atomic_load(&instance);
    if (c)
        return c;
    pthread_mutex_lock(&init_lock);
    c = atomic_load(&instance);
    if (!c) {
        c = &the_codec;
        c->level = 6;
        c->window = 15;
        c->encode = rot;
        atomic_store(&instance, c);
    }
    pthread_mutex_unlock(&init_lock);
    return c;
}

static void *compress(void *arg)
{
    int sum = 0;
    for (int i = 0; i < 4; i++) {
        struct codec *c = get_codec();
        sum += c->encode(10 + i);
        atomic_fetch_add(&encoded, 1);
    }
    *(int *)arg = sum;
    return NULL;
}

int main(void)
{
    pthread_t t[3];
    int sum[3], bad = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, compress, &sum[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++)
        bad |= sum[i] != rot(10) + rot(11) + rot(12) + rot(13);
    return bad || atomic_load(&encoded) != 12;
}
