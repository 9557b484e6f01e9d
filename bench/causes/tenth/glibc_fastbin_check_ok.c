/* correct twin of glibc_fastbin_check: free does not look into the chunk at the head of the bin, as it does not hold the lock of the arena */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { NFASTBINS = 4, PAGE = 4096 };

struct chunk {
    size_t size;
    struct chunk *fd;
};

static struct arena {
    pthread_mutex_t mutex;
    _Atomic(struct chunk *) fastbins[NFASTBINS];
    char *top_page;
    int trimmed;
} main_arena = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static unsigned fastbin_index(const struct chunk *p) {
    return (unsigned)(p->size >> 4) % NFASTBINS;
}

static void arena_free(struct chunk *p) {
    unsigned idx = fastbin_index(p);
    _Atomic(struct chunk *) *fb = &main_arena.fastbins[idx];
    struct chunk *old = atomic_load(fb);
    do {
        if (old == p) {
            fputs("double free or corruption (fasttop)\n", stderr);
            abort();
        }
        p->fd = old;
    } while (!atomic_compare_exchange_strong(fb, &old, p));
}

/* gives the page at the top of the arena back to the system */
static void arena_trim(void) {
    pthread_mutex_lock(&main_arena.mutex);
    for (int i = 0; i < NFASTBINS; i++) {
        struct chunk *p = atomic_exchange(&main_arena.fastbins[i], NULL);
        while (p) {
            struct chunk *next = p->fd;
            if ((char *)p == main_arena.top_page) {
                if (munmap(p, PAGE) != 0)
                    exit(2);
                main_arena.trimmed++;
            }
            p = next;
        }
    }
    pthread_mutex_unlock(&main_arena.mutex);
}

static void *worker(void *arg) {
    arena_free(arg);
    return NULL;
}

static void *trimmer(void *arg) {
    (void)arg;
    arena_trim();
    return NULL;
}

int main(void) {
    static struct chunk small[2];
    pthread_t free_thread, trim_thread;
    struct chunk *last = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (last == MAP_FAILED)
        return 2;
    main_arena.top_page = (char *)last;
    last->size = small[0].size = small[1].size = 32;
    arena_free(&small[0]);
    arena_free(last);
    pthread_create(&free_thread, NULL, worker, &small[1]);
    pthread_create(&trim_thread, NULL, trimmer, NULL);
    pthread_join(free_thread, NULL);
    pthread_join(trim_thread, NULL);
    printf("%d page given back\n", main_arena.trimmed);
    return main_arena.trimmed == 1 ? 0 : 1;
}
