/* class: two-phase commit flags (check-then-act on two words); fails by: wrong result; cause: the coordinator looks
 * whether a branch was cancelled and then decides to commit, the branch looks for a decision and then marks itself
 * cancelled; when both look before either writes, one branch commits and the other rolls back */
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
    pthread_mutex_lock(&t->lock);
    int c = t->cancelled;                         // CAUSE
    pthread_mutex_unlock(&t->lock);
    return c;
}

static int get_decision(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    int d = t->decision;                          // CAUSE
    pthread_mutex_unlock(&t->lock);
    return d;
}

static void decide(struct transfer *t, int d)
{
    pthread_mutex_lock(&t->lock);
    t->decision = d;                              // CAUSE
    pthread_mutex_unlock(&t->lock);
}

static void mark_cancelled(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    t->cancelled = 1;                             // CAUSE
    pthread_mutex_unlock(&t->lock);
}

static void *coordinator(void *arg)
{
    (void)arg;
    for (int i = 0; i < TRANSFERS; i++) {
        struct transfer *t = &transfers[i];
        int d = ABORT;
        prepare_log(i);
        if (!get_cancelled(t))
            d = COMMIT;
        decide(t, d);
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
        if (get_decision(t) == UNDECIDED) {
            mark_cancelled(t);
            cancel = 1;
        }
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
