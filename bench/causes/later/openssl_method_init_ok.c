/* correct twin of openssl_method_init: the flag is set when the table has been filled */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 3
#define DIGESTS 4

typedef unsigned (*digest_fn)(unsigned h, unsigned char c);

static unsigned add_sum(unsigned h, unsigned char c) { return h + c; }
static unsigned xor_sum(unsigned h, unsigned char c) { return h ^ (c * 257u); }
static unsigned djb2(unsigned h, unsigned char c) { return h * 33u + c; }
static unsigned fnv1a(unsigned h, unsigned char c) { return (h ^ c) * 16777619u; }

struct method {
    digest_fn update;
};

static const digest_fn built_in[DIGESTS] = { add_sum, xor_sum, djb2, fnv1a };
static struct method method[DIGESTS];
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int initialised;
static int times_filled;

static void methods_init(void)
{
    if (atomic_load(&initialised))
        return;
    pthread_mutex_lock(&init_lock);
    if (!atomic_load(&initialised)) {
        for (int i = 0; i < DIGESTS; i++)
            method[i].update = built_in[i];
        times_filled++;
        atomic_store(&initialised, 1);
    }
    pthread_mutex_unlock(&init_lock);
}

static unsigned digest(int kind, const char *text)
{
    unsigned h = 5381;
    methods_init();
    digest_fn update = method[kind].update;
    for (const char *p = text; *p; p++)
        h = update(h, (unsigned char)*p);
    return h;
}

static const char *const texts[] = { "one certificate", "another certificate", "a key" };
#define TEXTS ((int)(sizeof texts / sizeof texts[0]))

static unsigned expected_digest(int kind, const char *text)
{
    unsigned h = 5381;
    for (const char *p = text; *p; p++)
        h = built_in[kind](h, (unsigned char)*p);
    return h;
}

static void *handshake(void *arg)
{
    int *wrong = arg;
    for (int kind = DIGESTS - 1; kind >= 0; kind--)
        for (int t = 0; t < TEXTS; t++)
            if (digest(kind, texts[t]) != expected_digest(kind, texts[t]))
                ++*wrong;
    return NULL;
}

int main(void)
{
    pthread_t t[THREADS];
    int wrong[THREADS] = { 0 }, all = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, handshake, &wrong[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        all += wrong[i];
    }
    printf("table filled %d times, %d wrong digests\n", times_filled, all);
    return all != 0 || times_filled != 1;
}
