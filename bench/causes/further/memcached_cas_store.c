/* class: lost update (check and store in two critical sections); fails by: wrong result;
 * cause: do_cas compares the cas id under the lock, drops it, and stores under the lock later; two clients that
 * both pass the comparison before either stores are both told STORED, and one of the two updates is lost. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS 3
#define UPDATES 10
#define VLEN 12

enum result { STORED, EXISTS };

struct item {
    pthread_mutex_t lock;
    uint64_t cas;
    char value[VLEN];
};

static struct item counter = { .lock = PTHREAD_MUTEX_INITIALIZER, .cas = 1, .value = "0" };
static int retries[CLIENTS];

static int parse_value(const char *s)
{
    int v = 0;
    while (*s)
        v = v * 10 + (*s++ - '0');
    return v;
}

static void format_value(char *dst, int v)
{
    char tmp[VLEN];
    int n = 0, k = 0;
    do
        tmp[n++] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    while (n > 0)
        dst[k++] = tmp[--n];
    dst[k] = '\0';
}

static uint64_t do_gets(struct item *it, char *value)
{
    pthread_mutex_lock(&it->lock);
    uint64_t cas = it->cas;
    memcpy(value, it->value, VLEN);
    pthread_mutex_unlock(&it->lock);
    return cas;
}

static enum result do_cas(struct item *it, uint64_t cas, int new_value)
{
    char buf[VLEN] = { 0 };

    pthread_mutex_lock(&it->lock);
    int match = it->cas == cas; // CAUSE
    pthread_mutex_unlock(&it->lock);
    if (!match)
        return EXISTS;
    format_value(buf, new_value);
    pthread_mutex_lock(&it->lock);
    memcpy(it->value, buf, VLEN);
    it->cas++; // CAUSE
    pthread_mutex_unlock(&it->lock);
    return STORED;
}

static void *client(void *arg)
{
    int id = (int)(long)arg;
    char value[VLEN];

    for (int stored = 0; stored < UPDATES;) {
        uint64_t cas = do_gets(&counter, value);
        if (do_cas(&counter, cas, parse_value(value) + 1) == STORED)
            stored++;
        else
            retries[id]++;
    }
    return NULL;
}

int main(void)
{
    pthread_t th[CLIENTS];
    int sum = 0;

    for (long i = 0; i < CLIENTS; i++)
        pthread_create(&th[i], NULL, client, (void *)i);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(th[i], NULL);
        sum += retries[i];
    }
    int v = parse_value(counter.value);
    if (v != CLIENTS * UPDATES) {
        printf("FAIL: counter is %d after %d stored updates\n", v, CLIENTS * UPDATES);
        return 1;
    }
    printf("ok: counter %d, %d retries\n", v, sum);
    return 0;
}
