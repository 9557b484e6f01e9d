/* class: missed wake-up (signal instead of broadcast); fails by: deadlock;
 * cause: a worker fetches an object while two others already wait for it to become ready; the fetcher's signal wakes one
 * of the two, and the other one sleeps for ever, since nobody signals for this object again. */
#include <pthread.h>
#include <stdio.h>

#define WORKERS 4
#define OBJECTS 10
#define BODY 24

enum obj_state { OBJ_MISSING, OBJ_BUSY, OBJ_READY };

struct objcore {
    pthread_mutex_t mtx;
    pthread_cond_t ready;
    enum obj_state state;
    unsigned fetches;
    unsigned char body[BODY];
    unsigned etag;
};

static struct objcore cache[OBJECTS];
static unsigned long delivered[WORKERS];
static unsigned hits[WORKERS];

static unsigned fetch_body(struct objcore *oc, unsigned url)
{
    unsigned etag = 5381;

    for (unsigned i = 0; i < BODY; i++) {
        oc->body[i] = (unsigned char)(url * 13 + i);
        etag = etag * 33 + oc->body[i];
    }
    return etag & 0xffff;
}

static void unbusy(struct objcore *oc, unsigned etag)
{
    pthread_mutex_lock(&oc->mtx);
    oc->etag = etag;
    oc->fetches++;
    oc->state = OBJ_READY;
    pthread_cond_signal(&oc->ready); // CAUSE
    pthread_mutex_unlock(&oc->mtx);
}

static unsigned lookup(unsigned url, unsigned *hit)
{
    struct objcore *oc = &cache[url];
    unsigned etag;

    pthread_mutex_lock(&oc->mtx);
    if (oc->state == OBJ_MISSING) {
        oc->state = OBJ_BUSY;
        pthread_mutex_unlock(&oc->mtx);
        etag = fetch_body(oc, url);
        unbusy(oc, etag);
        return etag;
    }
    while (oc->state != OBJ_READY)
        pthread_cond_wait(&oc->ready, &oc->mtx); // CAUSE
    etag = oc->etag;
    ++*hit;
    pthread_mutex_unlock(&oc->mtx);
    return etag;
}

static void *worker(void *arg)
{
    int id = (int)(long)arg;
    for (unsigned url = 0; url < OBJECTS; url++)
        delivered[id] += lookup(url, &hits[id]);
    return NULL;
}

int main(void)
{
    pthread_t th[WORKERS];
    unsigned hit = 0, fetches = 0;

    for (int i = 0; i < OBJECTS; i++) {
        pthread_mutex_init(&cache[i].mtx, NULL);
        pthread_cond_init(&cache[i].ready, NULL);
    }
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&th[i], NULL, worker, (void *)i);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(th[i], NULL);
        hit += hits[i];
    }
    for (int i = 0; i < OBJECTS; i++)
        fetches += cache[i].fetches;
    if (fetches != OBJECTS || hit != OBJECTS * (WORKERS - 1) || delivered[0] != delivered[1]) {
        printf("FAIL: %u fetches, %u hits\n", fetches, hit);
        return 1;
    }
    printf("ok: %u fetches, %u hits\n", fetches, hit);
    return 0;
}
