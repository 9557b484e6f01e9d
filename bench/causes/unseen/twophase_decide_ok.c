/* correct twin of twophase_decide: who looks at the other's flag writes his own under the same hold of the lock */
#include <pthread.h>
#include <stdio.h>

#define TRANSFERS 4
#define AMOUNT 10

enum { UNDECIDED, COMMIT, ABORT };

struct transfer {
    pthread_mutex_t lock;
    int decision;
    int cancelled;
};

static struct transfer transfers[TRANSFERS];
static long source = 1000, target = 1000;
static int rolled_back, committed;

static int prepare_log(int n)
{
    unsigned h = n;
    for (int i = 0; i < 60; i++)
        h = h * 31 + i;
    return h != 0;
}

static int get_cancelled(struct transfer *t)
{
    int c = t->cancelled;
    return c;
}

static int get_decision(struct transfer *t)
{
    int d = t->decision;
    return d;
}

static void decide(struct transfer *t, int d)
{
    t->decision = d;
}

static void mark_cancelled(struct transfer *t)
{
    t->cancelled = 1;
}

static void *coordinator(void *arg)
{
    (void)arg;
    for (int i = 0; i < TRANSFERS; i++) {
        struct transfer *t = &transfers[i];
        int d = ABORT;
        prepare_log(i);
        pthread_mutex_lock(&t->lock);
        if (!get_cancelled(t))
            d = COMMIT;
        decide(t, d);
        pthread_mutex_unlock(&t->lock);
        if (d == COMMIT) {
            target += AMOUNT;
            committed++;
        }
    }
    return NULL;
}

static void *branch(void *arg)
{
    (void)arg;
    for (int i = 0; i < TRANSFERS; i++) {
        struct transfer *t = &transfers[i];
        int cancel = 0;
        source -= AMOUNT;
        prepare_log(i + TRANSFERS);
        pthread_mutex_lock(&t->lock);
        if (get_decision(t) == UNDECIDED) {
            mark_cancelled(t);
            cancel = 1;
        }
        pthread_mutex_unlock(&t->lock);
        if (cancel) {
            source += AMOUNT;
            rolled_back++;
        }
    }
    return NULL;
}

static int audit(void)
{
    printf("%d committed, %d rolled back, %ld in all\n", committed, rolled_back, source + target);
    return source + target != 2000;
}

int main(void)
{
    pthread_t c, b;
    for (int i = 0; i < TRANSFERS; i++)
        pthread_mutex_init(&transfers[i].lock, NULL);
    pthread_create(&c, NULL, coordinator, NULL);
    pthread_create(&b, NULL, branch, NULL);
    pthread_join(c, NULL);
    pthread_join(b, NULL);
    return audit();
}
