/* class: hand-written spin lock (test and set apart); fails by: wrong result; cause: spin_lock looks whether the lock
 * is free and takes it with a second instruction, so that two threads which look before either has taken it are both
 * inside and write their records to the same place of the journal */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define METERS 3
#define READINGS 5
#define ROOM (METERS * READINGS)

struct spin { atomic_int held; };

struct record { int meter; int reading; };

static struct {
    struct spin lock;
    int used;
    long sum;
    struct record record[ROOM];
} journal;

static void spin_lock(struct spin *l)
{
    for (;;) {
        if (atomic_load(&l->held) == 0) {         // CAUSE
            atomic_store(&l->held, 1);            // CAUSE
            return;
        }
        sched_yield();
    }
}

static void spin_unlock(struct spin *l)
{
    atomic_store(&l->held, 0);
}

static int read_meter(int meter, int n)
{
    int v = meter * 100 + 7;
    for (int i = 0; i < 40 + n; i++)
        v = (v * 31 + n) % 1009;
    return v;
}

static void journal_append(int meter, int reading)
{
    spin_lock(&journal.lock);
    int at = journal.used;
    journal.record[at].meter = meter;
    journal.record[at].reading = reading;
    journal.sum += reading;
    journal.used = at + 1;
    spin_unlock(&journal.lock);
}

static void *meter_main(void *arg)
{
    int meter = *(int *)arg;
    for (int n = 0; n < READINGS; n++)
        journal_append(meter, read_meter(meter, n));
    return NULL;
}

int main(void)
{
    pthread_t t[METERS];
    int id[METERS];
    long expected = 0, stored = 0;
    for (int m = 0; m < METERS; m++)
        for (int n = 0; n < READINGS; n++)
            expected += read_meter(m, n);
    for (int m = 0; m < METERS; m++) {
        id[m] = m;
        pthread_create(&t[m], NULL, meter_main, &id[m]);
    }
    for (int m = 0; m < METERS; m++)
        pthread_join(t[m], NULL);
    for (int i = 0; i < journal.used; i++)
        stored += journal.record[i].reading;
    printf("%d of %d records, sum %ld, expected %ld\n", journal.used, ROOM, stored, expected);
    return journal.used != ROOM || stored != expected || journal.sum != expected;
}
