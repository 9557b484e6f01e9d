/* correct twin of wrw_phase: the intermediate phase is stored under the lock that the monitor takes */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum phase { NEW, RUNNING, STOPPED };

struct service {
    pthread_mutex_t lock;
    atomic_int phase;
    atomic_int done;
    int generation, settings[4];
};

static struct service svc = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void configure(struct service *s, int gen)
{
    for (int i = 0; i < 4; i++)
        s->settings[i] = gen * 10 + i;
    s->generation = gen;
}

static void restart(struct service *s, int gen)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->phase, STOPPED);
    configure(s, gen);
    atomic_store(&s->phase, RUNNING);
    pthread_mutex_unlock(&s->lock);
}

static int check(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    int ok = s->settings[0] == s->generation * 10 && s->settings[3] == s->generation * 10 + 3;
    int phase = atomic_load(&s->phase);
    pthread_mutex_unlock(&s->lock);
    return ok && phase == RUNNING;
}

static void *monitor(void *arg)
{
    struct service *s = arg;
    for (int i = 0; i < 8 && !atomic_load(&s->done); i++)
        if (!check(s))
            abort();
    return NULL;
}

int main(void)
{
    pthread_t m;
    restart(&svc, 1);
    pthread_create(&m, NULL, monitor, &svc);
    for (int g = 2; g < 5; g++)
        restart(&svc, g);
    atomic_store(&svc.done, 1);
    pthread_join(m, NULL);
    return svc.generation != 4;
}
