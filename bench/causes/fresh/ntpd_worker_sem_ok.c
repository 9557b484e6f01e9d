/* correct twin of ntpd_worker_sem: the requester waits for a free place before it takes the access semaphore */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#define PLACES 3
#define REQUESTERS 2
#define PER 2

struct workitem { int request, owner; };

static sem_t accesslock;
static sem_t places;
static sem_t workitems;
static sem_t child_ready;
static struct workitem queue[PLACES];
static int head, tail;
static int answers[REQUESTERS];

static void queue_request(int owner, int request)
{
    sem_wait(&places);
    sem_wait(&accesslock);
    queue[head % PLACES].request = request;
    queue[head % PLACES].owner = owner;
    head++;
    sem_post(&accesslock);
    sem_post(&workitems);
}

static struct workitem receive_request(void)
{
    struct workitem w;
    sem_wait(&workitems);
    sem_wait(&accesslock);
    w = queue[tail % PLACES];
    tail++;
    sem_post(&accesslock);
    sem_post(&places);
    return w;
}

static int resolve(int request)
{
    int addr = request;
    for (int i = 0; i < 20; i++)
        addr = addr * 5 % 251;
    return addr > 0;
}

static void *blocking_child(void *arg)
{
    (void)arg;
    sem_post(&child_ready);
    for (int i = 0; i < REQUESTERS * PER; i++) {
        struct workitem w = receive_request();
        answers[w.owner] += resolve(w.request + 1);
    }
    return NULL;
}

static int prepare(int id, int n)
{
    volatile int crc = id;
    for (int i = 0; i < 2000; i++)
        crc = (crc * 3 + n + i) & 0xff;
    return crc & 0x7f;
}

static void *requester(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < PER; i++) {
        int request = prepare(id, i);
        queue_request(id, request);
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t child, t[REQUESTERS];
    int n = 0;
    sem_init(&accesslock, 0, 1);
    sem_init(&places, 0, PLACES);
    sem_init(&workitems, 0, 0);
    sem_init(&child_ready, 0, 0);
    pthread_create(&child, NULL, blocking_child, NULL);
    sem_wait(&child_ready);
    for (long i = 0; i < REQUESTERS; i++)
        pthread_create(&t[i], NULL, requester, (void *)i);
    for (int i = 0; i < REQUESTERS; i++)
        pthread_join(t[i], NULL);
    pthread_join(child, NULL);
    for (int i = 0; i < REQUESTERS; i++)
        n += answers[i];
    printf("%d answers\n", n);
    return n != REQUESTERS * PER;
}
