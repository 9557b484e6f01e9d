/* correct twin of libvirt_object_unref: the value that the countdown itself returns decides */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS 2
#define DOMAINS 3
#define DOMAIN_MAGIC 0x0cafe0d0

struct domain {
    long list[2];
    volatile int magic;
    atomic_int refs;
    atomic_int jobs;
    char name[16];
};

static struct domain *domains[DOMAINS];
static atomic_int disposed;

static struct domain *domain_new(int id)
{
    struct domain *d = calloc(1, sizeof *d);
    d->magic = DOMAIN_MAGIC;
    d->refs = 1;
    strcpy(d->name, "guest-");
    d->name[6] = (char)('0' + id);
    return d;
}

static void domain_dispose(struct domain *d)
{
    if (d->magic != DOMAIN_MAGIC) {
        fprintf(stderr, "domain disposed of twice\n");
        abort();
    }
    d->magic = 0;
    atomic_fetch_add(&disposed, 1);
    free(d);
}

static void object_ref(struct domain *d)
{
    atomic_fetch_add(&d->refs, 1);
}

static void object_unref(struct domain *d)
{
    if (atomic_fetch_sub(&d->refs, 1) == 1)
        domain_dispose(d);
}

static void *job(void *arg)
{
    int first = (int)(long)arg;
    for (int i = 0; i < DOMAINS; i++) {
        struct domain *d = domains[(first + i) % DOMAINS];
        atomic_fetch_add(&d->jobs, (int)strlen(d->name));
        object_unref(d);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[JOBS];
    for (int i = 0; i < DOMAINS; i++) {
        domains[i] = domain_new(i);
        for (int j = 1; j < JOBS; j++)
            object_ref(domains[i]);
    }
    for (long i = 0; i < JOBS; i++)
        pthread_create(&t[i], NULL, job, (void *)i);
    for (int i = 0; i < JOBS; i++)
        pthread_join(t[i], NULL);
    if (disposed != DOMAINS)
        abort();
    return 0;
}
