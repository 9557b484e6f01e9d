/* correct twin of lu_list: the head is replaced by compare-and-swap */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct job { int id; struct job *next; };
struct queue { _Atomic(struct job *) head; atomic_int pushed; };

static struct job jobs[3][6];
static struct queue q;

static void push(struct queue *qu, struct job *j)
{
    j->next = atomic_load(&qu->head);
    while (!atomic_compare_exchange_weak(&qu->head, &j->next, j))
        ;
    atomic_fetch_add(&qu->pushed, 1);
}

static void *producer(void *arg)
{
    struct job *mine = arg;
    for (int i = 0; i < 6; i++) {
        mine[i].id = (int)(mine - jobs[0]) + i;
        push(&q, &mine[i]);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[3];
    int n = 0, last = -1;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, producer, jobs[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (struct job *j = atomic_load(&q.head); j; j = j->next) {
        last = j->id;
        n++;
    }
    if (n != atomic_load(&q.pushed)) {
        printf("%d jobs in the list (last %d), %d pushed\n", n, last, atomic_load(&q.pushed));
        return 1;
    }
    return 0;
}
