/* correct twin of signal_on_empty: every put wakes a waiter */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define PATIENTS 3

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int ticket[PATIENTS];
    int count;
} desk = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 }, 0 };

static sem_t opened;
static unsigned treated[PATIENTS];

static unsigned treat(int ticket)
{
    unsigned h = ticket * 2654435761u;
    for (int i = 0; i < 100; i++)
        h = h * 33 + i;
    return h | 1;
}

static void put_ticket(int n)
{
    pthread_mutex_lock(&desk.lock);
    desk.ticket[desk.count++] = n;
    pthread_cond_signal(&desk.more);
    pthread_mutex_unlock(&desk.lock);
}

static int take_ticket(void)
{
    pthread_mutex_lock(&desk.lock);
    while (desk.count == 0)
        pthread_cond_wait(&desk.more, &desk.lock);
    int n = desk.ticket[--desk.count];
    pthread_mutex_unlock(&desk.lock);
    return n;
}

static void *patient(void *arg)
{
    (void)arg;
    int n = take_ticket();
    treated[n] = treat(n);
    return NULL;
}

static void *nurse(void *arg)
{
    unsigned *forms = arg;
    for (int i = 0; i < PATIENTS; i++) {
        put_ticket(i);
        if (i == 0)
            sem_post(&opened);
        *forms |= treat(i + PATIENTS);
    }
    return NULL;
}

int main(void)
{
    pthread_t p[PATIENTS], n;
    unsigned forms = 0;
    int done = 0;
    sem_init(&opened, 0, 0);
    pthread_create(&n, NULL, nurse, &forms);
    sem_wait(&opened);
    for (int i = 0; i < PATIENTS; i++)
        pthread_create(&p[i], NULL, patient, NULL);
    for (int i = 0; i < PATIENTS; i++)
        pthread_join(p[i], NULL);
    pthread_join(n, NULL);
    for (int i = 0; i < PATIENTS; i++)
        done += treated[i] == treat(i);
    printf("%d patients treated\n", done);
    return done != PATIENTS || !forms;
}
