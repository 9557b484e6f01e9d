/* class: atomicity violation (single word, lost maximum); fails by: wrong result; cause: (after MySQL's
 * max_used_connections) a new connection compares its number with the maximum and stores it without the lock, so
 * that a smaller number, compared earlier, is stored over a larger one */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define CLIENTS 3
#define SESSIONS 3

static pthread_mutex_t LOCK_connection_count = PTHREAD_MUTEX_INITIALIZER;
static int connection_count;
static int max_used_connections;
static int largest[CLIENTS];
static unsigned answers[CLIENTS];

static void note_maximum(int n)
{
    if (n > max_used_connections) {               // CAUSE
        max_used_connections = n;                 // CAUSE
    }
}

static int open_connection(void)
{
    pthread_mutex_lock(&LOCK_connection_count);
    int n = ++connection_count;
    pthread_mutex_unlock(&LOCK_connection_count);
    note_maximum(n);
    return n;
}

static void close_connection(void)
{
    pthread_mutex_lock(&LOCK_connection_count);
    connection_count--;
    pthread_mutex_unlock(&LOCK_connection_count);
}

static unsigned query(unsigned id)
{
    unsigned h = id + 1;
    for (int i = 0; i < 50; i++) {
        h = h * 69069u + 1;
        if (i % 25 == 0)
            sched_yield();
    }
    return h;
}

static void *client(void *arg)
{
    int id = (int)(long)arg;
    for (int i = 0; i < SESSIONS; i++) {
        int n = open_connection();
        if (n > largest[id])
            largest[id] = n;
        answers[id] ^= query(id * SESSIONS + i);
        close_connection();
    }
    return NULL;
}

static int show_status(void)
{
    int most = 0;
    for (int i = 0; i < CLIENTS; i++)
        if (largest[i] > most)
            most = largest[i];
    printf("Max_used_connections %d, seen %d\n", max_used_connections, most);
    return max_used_connections != most;
}

int main(void)
{
    pthread_t t[CLIENTS];
    for (long i = 0; i < CLIENTS; i++)
        pthread_create(&t[i], NULL, client, (void *)i);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(t[i], NULL);
    if (connection_count != 0)
        return 1;
    return show_status();
}
