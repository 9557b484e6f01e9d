/* class: deadlock (lock order, rwlock and mutex); fails by: hang; cause: zvol_open holds the zvol state lock for reading and wants the namespace lock, while a pool export holds the namespace lock and wants the zvol state lock for writing */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOLS = 2, ZVOLS = 4 };

struct spa {
    char name[16];
    int refs, exported;
};

struct zvol_state {
    struct zvol_state *next;
    char name[24];
    int minor, open_count, dying;
    struct spa *spa;
};

static pthread_mutex_t spa_namespace_lock = PTHREAD_MUTEX_INITIALIZER;
static struct spa spa_namespace[POOLS];
static pthread_rwlock_t zvol_state_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct zvol_state *zvol_state_list;
static pthread_mutex_t zvol_count_lock = PTHREAD_MUTEX_INITIALIZER;

static struct zvol_state *zvol_find_by_minor(int minor) {
    for (struct zvol_state *zv = zvol_state_list; zv; zv = zv->next)
        if (zv->minor == minor)
            return zv;
    return NULL;
}

static int zvol_first_open(struct zvol_state *zv) {
    int error = 0;
    pthread_mutex_lock(&spa_namespace_lock); // CAUSE
    if (zv->spa->exported)
        error = -1;
    else
        zv->spa->refs++;
    pthread_mutex_unlock(&spa_namespace_lock);
    return error;
}

static int zvol_open(int minor) {
    int error = -1;
    pthread_rwlock_rdlock(&zvol_state_lock); // CAUSE
    struct zvol_state *zv = zvol_find_by_minor(minor);
    if (zv && !zv->dying) {
        error = zvol_first_open(zv);
        if (error == 0) {
            pthread_mutex_lock(&zvol_count_lock);
            zv->open_count++;
            pthread_mutex_unlock(&zvol_count_lock);
        }
    }
    pthread_rwlock_unlock(&zvol_state_lock);
    return error;
}

static void zvol_release(int minor) {
    struct spa *spa = NULL;
    pthread_rwlock_rdlock(&zvol_state_lock);
    struct zvol_state *zv = zvol_find_by_minor(minor);
    if (zv) {
        pthread_mutex_lock(&zvol_count_lock);
        zv->open_count--;
        pthread_mutex_unlock(&zvol_count_lock);
        spa = zv->spa;
    }
    pthread_rwlock_unlock(&zvol_state_lock);
    if (!spa)
        return;
    pthread_mutex_lock(&spa_namespace_lock);
    spa->refs--;
    pthread_mutex_unlock(&spa_namespace_lock);
}

static int zvol_remove_minors(struct spa *spa) {
    int removed = 0;
    pthread_rwlock_wrlock(&zvol_state_lock); // CAUSE
    for (struct zvol_state *zv = zvol_state_list; zv; zv = zv->next) {
        if (zv->spa == spa && zv->open_count == 0 && !zv->dying) {
            zv->dying = 1;
            removed++;
        }
    }
    pthread_rwlock_unlock(&zvol_state_lock);
    return removed;
}

static int spa_export(const char *name) {
    int removed = -1;
    pthread_mutex_lock(&spa_namespace_lock); // CAUSE
    for (int i = 0; i < POOLS; i++) {
        struct spa *spa = &spa_namespace[i];
        if (strcmp(spa->name, name) == 0 && spa->refs == 0) {
            removed = zvol_remove_minors(spa);
            spa->exported = 1;
        }
    }
    pthread_mutex_unlock(&spa_namespace_lock);
    return removed;
}

struct user {
    pthread_t thread;
    int first, opened, refused;
};

static void *user_main(void *arg) {
    struct user *u = arg;
    for (int i = 0; i < ZVOLS; i++) {
        int minor = (u->first + i) % ZVOLS;
        if (zvol_open(minor) == 0) {
            u->opened++;
            zvol_release(minor);
        } else {
            u->refused++;
        }
    }
    return NULL;
}

int main(void) {
    static struct zvol_state zvol[ZVOLS];
    struct user user[2] = { { .first = 0 }, { .first = 2 } };
    for (int i = 0; i < POOLS; i++)
        snprintf(spa_namespace[i].name, sizeof spa_namespace[i].name, "tank%d", i);
    for (int i = 0; i < ZVOLS; i++) {
        zvol[i].minor = i;
        zvol[i].spa = &spa_namespace[i % POOLS];
        snprintf(zvol[i].name, sizeof zvol[i].name, "%s/vol%d", zvol[i].spa->name, i);
        zvol[i].next = zvol_state_list;
        zvol_state_list = &zvol[i];
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&user[i].thread, NULL, user_main, &user[i]);
    int removed = spa_export("tank1");
    for (int i = 0; i < 2; i++)
        pthread_join(user[i].thread, NULL);
    int opened = user[0].opened + user[1].opened, refused = user[0].refused + user[1].refused;
    printf("%d zvols removed, %d opened, %d refused\n", removed, opened, refused);
    return opened + refused == 2 * ZVOLS && spa_namespace[0].refs + spa_namespace[1].refs == 0 ? 0 : 1;
}
