/* class: deadlock (lock order); fails by: deadlock; cause: a stream takes the lock of the peers while it holds the lock of the stick table, and the peer task takes the two the other way round */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define ENTRIES 4
#define STREAMS 2
#define REQS 4

struct stksess { int key, hits, updated; };

struct stktable {
    pthread_mutex_t lock;
    struct stksess e[ENTRIES];
    int update, commit;
};

struct peers {
    pthread_mutex_t lock;
    int wanted, teached;
};

static struct stktable table = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct peers peers = { .lock = PTHREAD_MUTEX_INITIALIZER };
static int streams_done;

static void wake_peers(void)
{
    pthread_mutex_lock(&peers.lock);              // CAUSE
    peers.wanted++;
    pthread_mutex_unlock(&peers.lock);
}

static void touch_entry(int key)
{
    int wake = 0;
    pthread_mutex_lock(&table.lock);              // CAUSE
    struct stksess *s = &table.e[key % ENTRIES];
    s->key = key;
    s->hits++;
    if (!s->updated) {
        s->updated = 1;
        table.update++;
        wake = 1;
    }
    if (wake)
        wake_peers();
    pthread_mutex_unlock(&table.lock);
}

static void *stream(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < REQS; i++)
        touch_entry(id + i);
    pthread_mutex_lock(&peers.lock);
    streams_done++;
    pthread_mutex_unlock(&peers.lock);
    return NULL;
}

static int teach(void)
{
    int n = 0;
    pthread_mutex_lock(&table.lock);              // CAUSE
    for (int i = 0; i < ENTRIES; i++)
        if (table.e[i].updated) {
            table.e[i].updated = 0;
            n++;
        }
    table.commit = table.update;
    pthread_mutex_unlock(&table.lock);
    return n;
}

static void *peer_task(void *arg)
{
    int end = 0;
    (void)arg;
    while (!end) {
        pthread_mutex_lock(&peers.lock);          // CAUSE
        end = streams_done == STREAMS;
        if (peers.wanted || end) {
            peers.wanted = 0;
            peers.teached += teach();
        }
        pthread_mutex_unlock(&peers.lock);
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t t[STREAMS], p;
    int hits = 0;
    for (long i = 0; i < STREAMS; i++)
        pthread_create(&t[i], NULL, stream, (void *)i);
    pthread_create(&p, NULL, peer_task, NULL);
    for (int i = 0; i < STREAMS; i++)
        pthread_join(t[i], NULL);
    pthread_join(p, NULL);
    for (int i = 0; i < ENTRIES; i++)
        hits += table.e[i].hits;
    printf("hits %d\n", hits);
    return hits != STREAMS * REQS || peers.teached != table.update;
}
