/* class: atomicity violation (check then use); fails by: crash; cause: the key is revoked and its payload dropped between keyctl_read's check that the key is valid and its read of the payload under the key's semaphore */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 3, READERS = 2, KEY_FLAG_REVOKED = 1, KEY_FLAG_DEAD = 2 };

struct user_key_payload {
    size_t datalen;
    char data[32];
};

struct key {
    int serial;
    atomic_int usage;
    atomic_uint flags;
    pthread_rwlock_t sem;
    struct user_key_payload *payload;
};

static struct key keyring[KEYS];

static struct key *lookup_user_key(int serial) {
    for (int i = 0; i < KEYS; i++) {
        if (keyring[i].serial == serial) {
            atomic_fetch_add(&keyring[i].usage, 1);
            return &keyring[i];
        }
    }
    return NULL;
}

static void key_put(struct key *key) {
    atomic_fetch_sub(&key->usage, 1);
}

static int key_validate(struct key *key) {
    unsigned flags = atomic_load(&key->flags); // CAUSE
    if (flags & KEY_FLAG_DEAD)
        return -ENOENT;
    if (flags & KEY_FLAG_REVOKED)
        return -EACCES;
    return 0;
}

static long user_read(struct key *key, char *buffer, size_t buflen) {
    struct user_key_payload *p = key->payload; // CAUSE
    size_t n = p->datalen;
    memcpy(buffer, p->data, n < buflen ? n : buflen);
    return (long)n;
}

static long keyctl_read_key(int serial, char *buffer, size_t buflen) {
    struct key *key = lookup_user_key(serial);
    if (!key)
        return -ENOENT;
    long ret = key_validate(key);
    if (ret == 0) {
        pthread_rwlock_rdlock(&key->sem);
        ret = user_read(key, buffer, buflen);
        pthread_rwlock_unlock(&key->sem);
    }
    key_put(key);
    return ret;
}

static long keyctl_revoke_key(int serial) {
    struct key *key = lookup_user_key(serial);
    if (!key)
        return -ENOENT;
    pthread_rwlock_wrlock(&key->sem);
    if (!(atomic_fetch_or(&key->flags, KEY_FLAG_REVOKED) & KEY_FLAG_REVOKED)) {
        struct user_key_payload *p = key->payload;
        key->payload = NULL; // CAUSE
        free(p);
    }
    pthread_rwlock_unlock(&key->sem);
    key_put(key);
    return 0;
}

static void add_key(int slot, const char *secret) {
    struct key *key = &keyring[slot];
    key->serial = 1000 + slot;
    atomic_init(&key->usage, 1);
    pthread_rwlock_init(&key->sem, NULL);
    key->payload = malloc(sizeof *key->payload);
    key->payload->datalen = strlen(secret);
    strcpy(key->payload->data, secret);
}

struct reader {
    pthread_t thread;
    unsigned ok, revoked, wrong;
};

static void *reader_main(void *arg) {
    struct reader *r = arg;
    for (int i = 0; i < 2 * KEYS; i++) {
        char buffer[32] = "";
        long n = keyctl_read_key(1000 + i % KEYS, buffer, sizeof buffer - 1);
        if (n == -EACCES)
            r->revoked++;
        else if (n > 0 && (size_t)n == strlen(buffer) && strncmp(buffer, "secret", 6) == 0)
            r->ok++;
        else
            r->wrong++;
    }
    return NULL;
}

static void *revoker_main(void *arg) {
    (void)arg;
    for (int i = KEYS - 1; i >= 0; i--)
        keyctl_revoke_key(1000 + i);
    return NULL;
}

int main(void) {
    struct reader r[READERS] = { { .ok = 0 } };
    pthread_t revoker;
    unsigned wrong = 0, refs = 0;
    add_key(0, "secret of root");
    add_key(1, "secret of the disk");
    add_key(2, "secret of the mail account");
    for (int i = 0; i < READERS; i++)
        pthread_create(&r[i].thread, NULL, reader_main, &r[i]);
    pthread_create(&revoker, NULL, revoker_main, NULL);
    for (int i = 0; i < READERS; i++) {
        pthread_join(r[i].thread, NULL);
        wrong += r[i].wrong;
    }
    pthread_join(revoker, NULL);
    for (int i = 0; i < KEYS; i++)
        refs += (unsigned)atomic_load(&keyring[i].usage);
    printf("%u read, %u revoked, %u wrong\n", r[0].ok + r[1].ok, r[0].revoked + r[1].revoked, wrong);
    return wrong == 0 && refs == KEYS ? 0 : 1;
}
