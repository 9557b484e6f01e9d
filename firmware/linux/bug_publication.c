/* A seeded bug: double-checked locking that publishes the pointer before the object is filled in. Another
 * thread that looks in between uses a half-built object. Exit code 1 when that was seen.
 *
 * GOOD: filled in first, then published with release, read with acquire. */
#include "guest.h"

#define THREADS 3

struct settings {
    volatile long width, height;
};

static struct settings storage;
static struct settings *volatile shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long half_built;

static NOINLINE void fill(struct settings *settings) {
    settings->width = 640;
    settings->height = 480;
}

static NOINLINE struct settings *get_settings(void) {
    struct settings *settings = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
    if (settings)
        return settings;
    pthread_mutex_lock(&lock);
    if (!shared) {
#ifdef GOOD
        fill(&storage);
        __atomic_store_n(&shared, &storage, __ATOMIC_RELEASE);
#else
        shared = &storage; /* the bug: anyone may use it from here on */
        fill(&storage);
#endif
    }
    pthread_mutex_unlock(&lock);
    return shared;
}

static void *use(void *argument) {
    struct settings *settings = get_settings();
    if (settings->width != 640 || settings->height != 480)
        __atomic_fetch_add(&half_built, 1, __ATOMIC_SEQ_CST);
    return argument;
}

int main(void) {
    run_threads(THREADS, use);
    printf(PROGRAM ": uses %d half-built %ld\n", THREADS, half_built);
    return half_built != 0;
}
