/* correct twin of uaf_job: the submitter reads the number before it hands the job over */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS 6

struct job { long number; long (*run)(long); long arg; };
struct report { long magic, result, reserved; };

static _Atomic(struct job *) box[JOBS];
static sem_t posted;
static struct report *reports[JOBS];
static long submitted[JOBS];
static atomic_int in_flight;

static long square(long v) { return v * v; }
static long twice(long v) { return 2 * v; }

static void submit(int i)
{
    struct job *j = malloc(sizeof *j);
    j->number = 1000 + i;
    j->run = i % 2 ? square : twice;
    j->arg = i;
    submitted[i] = j->number;
    atomic_store(&box[i], j);
    sem_post(&posted);
    atomic_fetch_add(&in_flight, 1);
}

static void *worker(void *arg)
{
    for (int i = 0; i < JOBS; i++) {
        sem_wait(&posted);
        struct job *j = atomic_load(&box[i]);
        long result = j->run(j->arg);
        free(j);
        struct report *r = malloc(sizeof *r);
        r->magic = 0x7265706f;
        r->result = result;
        reports[i] = r;
        atomic_fetch_sub(&in_flight, 1);
    }
    return NULL;
}

int main(void)
{
    pthread_t w;
    long sum = 0;
    sem_init(&posted, 0, 0);
    pthread_create(&w, NULL, worker, NULL);
    for (int i = 0; i < JOBS; i++)
        submit(i);
    pthread_join(w, NULL);
    for (int i = 0; i < JOBS; i++) {
        sum += reports[i]->result;
        if (submitted[i] != 1000 + i) {
            printf("job %d has number %ld\n", i, submitted[i]);
            return 1;
        }
    }
    return sum != 0 + 1 + 4 + 9 + 8 + 25 || atomic_load(&in_flight);
}
