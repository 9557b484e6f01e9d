/* class: semaphore posted too early; fails by: SIGSEGV; cause: a sender posts the count of parcels before it has linked
 * its parcel into the list, so that the carrier comes to an empty list and loads an empty place into the van */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define SENDERS 2
#define EACH 4
#define ALL (SENDERS * EACH)

struct parcel { struct parcel *next; int grams, sender; };

static struct {
    pthread_mutex_t lock;
    sem_t count;
    struct parcel *head;
} shelf = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct parcel *van[ALL];
static int sent_grams[SENDERS];

static void shelf_put(struct parcel *p)
{
    sem_post(&shelf.count);                       // CAUSE
    pthread_mutex_lock(&shelf.lock);
    p->next = shelf.head;
    shelf.head = p;                               // CAUSE
    pthread_mutex_unlock(&shelf.lock);
}

static struct parcel *shelf_take(void)
{
    sem_wait(&shelf.count);
    pthread_mutex_lock(&shelf.lock);
    struct parcel *p = shelf.head;                // CAUSE
    if (p)
        shelf.head = p->next;
    pthread_mutex_unlock(&shelf.lock);
    return p;
}

static void *sender(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < EACH; i++) {
        struct parcel *p = malloc(sizeof *p);
        if (p == NULL)
            abort();
        p->sender = id;
        p->grams = 100 * id + 10 * i + 1;
        sent_grams[id] += p->grams;
        shelf_put(p);
    }
    return NULL;
}

static void *carrier(void *arg)
{
    (void)arg;
    for (int i = 0; i < ALL; i++)
        van[i] = shelf_take();
    return NULL;
}

static int weigh_van(void)
{
    int grams = 0;
    for (int i = 0; i < ALL; i++) {
        grams += van[i]->grams;
        free(van[i]);
    }
    return grams;
}

int main(void)
{
    pthread_t s[SENDERS], c;
    int sent = 0;
    sem_init(&shelf.count, 0, 0);
    for (long i = 0; i < SENDERS; i++)
        pthread_create(&s[i], NULL, sender, (void *)i);
    pthread_create(&c, NULL, carrier, NULL);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(s[i], NULL);
        sent += sent_grams[i];
    }
    pthread_join(c, NULL);
    int grams = weigh_van();
    sem_destroy(&shelf.count);
    printf("%d grams\n", grams);
    return grams != sent;
}
