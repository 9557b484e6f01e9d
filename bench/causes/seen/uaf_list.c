/* class: use after free (heap); fails by: exit; cause: a reader walks the list without the lock and stands on a node that the expiry unlinks, frees and whose memory it uses for an audit record */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lease { int addr, check, pad[2]; struct lease *volatile next; };
struct audit { char text[24]; };

static struct lease *volatile leases;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct audit *trail[8];
static int ntrail;
static atomic_int visited;

static void add(int addr)
{
    struct lease *l = malloc(sizeof *l);
    l->addr = addr;
    l->check = ~addr;
    l->next = leases;
    leases = l;
}

static void expire(int addr)
{
    pthread_mutex_lock(&lock);
    struct lease *volatile *p = &leases;
    while (*p && (*p)->addr != addr)
        p = &(*p)->next;
    struct lease *dead = *p;
    *p = dead->next;
    free(dead);                                   // CAUSE
    struct audit *a = malloc(sizeof *a);
    memset(a->text, 'x', sizeof a->text);         // CAUSE
    trail[ntrail++] = a;
    pthread_mutex_unlock(&lock);
}

static void *reader(void *arg)
{
    int *live = arg;
    for (int i = 0; i < 4; i++) {
        *live = 0;
        for (struct lease *l = leases; l; l = l->next) { // CAUSE
            atomic_fetch_add(&visited, 1);
            int a = l->addr, c = l->check;        // CAUSE
            if (c != ~a) {
                puts("corrupt lease");
                exit(1);
            }
            ++*live;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t r;
    int live;
    for (int i = 0; i < 8; i++)
        add(100 + i);
    pthread_create(&r, NULL, reader, &live);
    for (int i = 0; i < 7; i++)
        expire(100 + i);
    pthread_join(r, NULL);
    return atomic_load(&visited) < 4 || live < 1;
}
