/* class: lock-free queue (gap between taking a place and linking it); fails by: wrong result; cause: (after Vyukov's
 * queue in Rust's mpsc and others) a consumer woken for one message finds the queue cut off, because another producer
 * has swung the head but not linked its node yet, takes it for empty and never comes back for that message */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#define SENDERS 2
#define MESSAGES 4
#define TOTAL (SENDERS * MESSAGES)

struct node {
    _Atomic(struct node *) next;
    int value;
};

static struct node stub;
static _Atomic(struct node *) head = &stub;     /* producers */
static struct node *tail = &stub;               /* consumer */
static sem_t posted;

static void mpsc_push(struct node *n)
{
    atomic_store(&n->next, NULL);
    struct node *prev = atomic_exchange(&head, n);    // CAUSE
    atomic_store(&prev->next, n);                 // CAUSE
}

static int mpsc_pop(int *value)
{
    struct node *next = atomic_load(&tail->next);    // CAUSE
    if (!next)
        return 0;
    *value = next->value;
    tail = next;
    return 1;
}

struct sender {
    int id;
    struct node node[MESSAGES];
};

static void *sender_main(void *arg)
{
    struct sender *s = arg;
    for (int i = 0; i < MESSAGES; i++) {
        s->node[i].value = s->id * 10 + i;
        mpsc_push(&s->node[i]);
        sem_post(&posted);
    }
    return NULL;
}

static int received, received_sum;

static void *receiver_main(void *arg)
{
    (void)arg;
    for (int wakeups = 0; wakeups < TOTAL; wakeups++) {
        int value;
        while (sem_wait(&posted) != 0)
            ;
        if (mpsc_pop(&value)) {
            received++;
            received_sum += value;
        }
    }
    return NULL;
}

int main(void)
{
    static struct sender sender[SENDERS];
    pthread_t r, t[SENDERS];
    int expected = 0;
    sem_init(&posted, 0, 0);
    for (int s = 0; s < SENDERS; s++)
        for (int i = 0; i < MESSAGES; i++)
            expected += (s + 1) * 10 + i;
    pthread_create(&r, NULL, receiver_main, NULL);
    for (int s = 0; s < SENDERS; s++) {
        sender[s].id = s + 1;
        pthread_create(&t[s], NULL, sender_main, &sender[s]);
    }
    for (int s = 0; s < SENDERS; s++)
        pthread_join(t[s], NULL);
    pthread_join(r, NULL);
    printf("%d of %d messages, sum %d of %d\n", received, TOTAL, received_sum, expected);
    return received != TOTAL || received_sum != expected;
}
