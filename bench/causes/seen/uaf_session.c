/* class: use after free (heap); fails by: exit; cause: a client loads the session pointer and takes its reference only afterwards, while the logout drops the last reference and frees the session */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session { char user[16]; int id; atomic_int refs; };

static _Atomic(struct session *) slot;
static atomic_int requests;

static struct session *login(const char *user, int id)
{
    struct session *s = malloc(sizeof *s);
    strcpy(s->user, user);
    s->id = id;
    atomic_init(&s->refs, 1);
    return s;
}

static void put(struct session *s)
{
    if (atomic_fetch_sub(&s->refs, 1) == 1)
        free(s);                                  // CAUSE
}

static struct session *get(void)
{
    struct session *s = atomic_load(&slot);       // CAUSE
    if (s)
        atomic_fetch_add(&s->refs, 1);            // CAUSE
    return s;
}

static void *client(void *arg)
{
    for (int i = 0; i < 5; i++) {
        struct session *s = get();
        if (!s)
            continue;
        atomic_fetch_add(&requests, 1);
        if (strcmp(s->user, "alice") && strcmp(s->user, "bob")) // CAUSE
            exit(1);
        put(s);
    }
    return NULL;
}

static void change_user(const char *user, int id)
{
    struct session *old = atomic_exchange(&slot, NULL);
    put(old);
    atomic_store(&slot, login(user, id));
}

int main(void)
{
    pthread_t t[2];
    atomic_store(&slot, login("alice", 1));
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, client, NULL);
    change_user("bob", 2);
    change_user("alice", 3);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    put(atomic_load(&slot));
    return atomic_load(&requests) > 10;
}
