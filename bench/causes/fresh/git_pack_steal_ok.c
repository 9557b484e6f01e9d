/* correct twin of git_pack_steal: the list and the count change in one critical section */
#include <pthread.h>
#include <stdio.h>

#define OBJECTS 12
#define THREADS 2
#define SLACK 4

struct thread_params {
    pthread_t thread;
    int list;
    int remaining;
    int deltas;
};

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread_params params[THREADS];
static int seen[OBJECTS + SLACK];
static int size_of[OBJECTS + SLACK];

static int try_delta(int object)
{
    int d = 0;
    for (int i = 1; i <= 10; i++)
        d += (object * i) % 3 == 0;
    return d;
}

static int next_object(struct thread_params *me)
{
    int object;
    pthread_mutex_lock(&progress_lock);
    if (me->remaining == 0) {
        pthread_mutex_unlock(&progress_lock);
        return -1;
    }
    object = me->list++;
    me->remaining--;
    pthread_mutex_unlock(&progress_lock);
    size_of[object] = 1 + object;
    return object;
}

static int steal(struct thread_params *me, struct thread_params *victim)
{
    pthread_mutex_lock(&progress_lock);
    int sub = victim->remaining / 2;
    me->list = victim->list + victim->remaining - sub;
    me->remaining = sub;
    victim->remaining -= sub;
    pthread_mutex_unlock(&progress_lock);
    return sub;
}

static void find_deltas(struct thread_params *me)
{
    int object;
    while ((object = next_object(me)) >= 0) {
        me->deltas += try_delta(object);
        pthread_mutex_lock(&progress_lock);
        seen[object]++;
        pthread_mutex_unlock(&progress_lock);
    }
}

static void *threaded_find_deltas(void *arg)
{
    struct thread_params *me = arg;
    find_deltas(me);
    if (me == &params[1])
        while (steal(me, &params[0]) > 0)
            find_deltas(me);
    return NULL;
}

int main(void)
{
    int bad = 0;
    params[0].list = 0;
    params[0].remaining = OBJECTS - 2;
    params[1].list = OBJECTS - 2;
    params[1].remaining = 2;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&params[i].thread, NULL, threaded_find_deltas, &params[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(params[i].thread, NULL);
    for (int i = 0; i < OBJECTS; i++)
        if (seen[i] != 1) {
            printf("object %d packed %d times\n", i, seen[i]);
            bad = 1;
        }
    return bad;
}
