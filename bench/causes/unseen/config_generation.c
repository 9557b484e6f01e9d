/* class: generation counter (read apart from its data); fails by: wrong result; cause: a worker copies the
 * configuration in one critical section and notes its generation in a second one, so that a reload in between is
 * taken for applied and the worker keeps the old configuration to the end */
#include <pthread.h>
#include <stdio.h>

#define WORKERS 2
#define RELOADS 3

struct config { int limit, window; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct config config = { 10, 100 };
static unsigned generation = 1;
static int stopping;

static struct config applied[WORKERS];
static int applications[WORKERS];

static void reload(int n)
{
    pthread_mutex_lock(&lock);
    config.limit = 10 * (n + 2);
    config.window = 100 * (n + 2);
    generation++;                                 // CAUSE
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void stop(void)
{
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static unsigned fetch(struct config *c)
{
    pthread_mutex_lock(&lock);
    *c = config;                                  // CAUSE
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    unsigned g = generation;                      // CAUSE
    pthread_mutex_unlock(&lock);
    return g;
}

static int wait_for_change(unsigned seen)
{
    pthread_mutex_lock(&lock);
    while (generation == seen && !stopping)
        pthread_cond_wait(&changed, &lock);
    int more = generation != seen;
    pthread_mutex_unlock(&lock);
    return more;
}

static void apply(int id, const struct config *c)
{
    applied[id].limit = c->limit;
    for (int w = 0; w < c->window; w++)
        applied[id].window = w + 1;
    applications[id]++;
}

static void *worker(void *arg)
{
    int id = (int)(long)arg;
    unsigned seen;
    do {
        struct config c;
        seen = fetch(&c);
        apply(id, &c);
    } while (wait_for_change(seen));
    return NULL;
}

static void *admin(void *arg)
{
    (void)arg;
    for (int i = 0; i < RELOADS; i++) {
        reload(i);
    }
    stop();
    return NULL;
}

static int check(int id)
{
    printf("worker %d: limit %d window %d\n", id, applied[id].limit, applied[id].window);
    return applied[id].limit != config.limit || applied[id].window != config.window;
}

int main(void)
{
    pthread_t w[WORKERS], a;
    int bad = 0;
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&w[i], NULL, worker, (void *)i);
    pthread_create(&a, NULL, admin, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(w[i], NULL);
    pthread_join(a, NULL);
    for (int i = 0; i < WORKERS; i++)
        bad += check(i);
    return bad;
}
