/* class: check-then-act on a container; fails by: wrong result; cause: a worker looks a script up under the read lock and adds it under the write lock without a second look, so that two workers add the same script */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define BUCKETS 4
#define MAX 32
#define WORKERS 2

struct script { char name[16]; int ops; int next; };

static struct {
    pthread_rwlock_t lock;
    int bucket[BUCKETS];
    int used;
    struct script s[MAX];
} accel = { .lock = PTHREAD_RWLOCK_INITIALIZER, .bucket = { -1, -1, -1, -1 } };

static const char *const files[] = { "index.php", "user.php", "db.php", "feed.php", "admin.php" };
#define FILES ((int)(sizeof files / sizeof files[0]))

static unsigned hash(const char *s)
{
    unsigned h = 5381;
    while (*s)
        h = h * 33 + (unsigned char)*s++;
    return h % BUCKETS;
}

static int find(const char *name)
{
    for (int i = accel.bucket[hash(name)]; i >= 0; i = accel.s[i].next)   // CAUSE
        if (!strcmp(accel.s[i].name, name))
            return i;
    return -1;
}

static int compile(const char *name)
{
    int ops = 0;
    while (*name)
        ops += *name++ & 15;
    return ops;
}

static void add(const char *name, int ops)
{
    unsigned h = hash(name);
    struct script *s = &accel.s[accel.used];
    strcpy(s->name, name);
    s->ops = ops;
    s->next = accel.bucket[h];
    accel.bucket[h] = accel.used++;               // CAUSE
}

static void include_file(const char *name)
{
    pthread_rwlock_rdlock(&accel.lock);
    int i = find(name);
    pthread_rwlock_unlock(&accel.lock);
    if (i >= 0)
        return;
    int ops = compile(name);
    pthread_rwlock_wrlock(&accel.lock);
    add(name, ops);
    pthread_rwlock_unlock(&accel.lock);
}

static void *fpm_worker(void *arg)
{
    int start = (int)(long)arg;
    for (int i = 0; i < FILES; i++)
        include_file(files[(start + i * (start ? 2 : 1)) % FILES]);
    return NULL;
}

int main(void)
{
    pthread_t t[WORKERS];
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&t[i], NULL, fpm_worker, (void *)(2 * i));
    for (int i = 0; i < WORKERS; i++)
        pthread_join(t[i], NULL);
    printf("%d scripts\n", accel.used);
    return accel.used != FILES;
}
