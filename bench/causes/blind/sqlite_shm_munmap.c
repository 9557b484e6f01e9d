/* class: use after free (munmap); fails by: segv; cause: a reader fetches the mapped WAL-index region without the
 * mutex and reads it while another connection, closing, has unmapped the region.
 * Modelled on SQLite's unixShmUnmap/unixShmMap (os_unix.c) and LevelDB's mmap'ed tables. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define FRAMES 6

struct shm_node {
    pthread_mutex_t mutex;
    int nref;
    int *volatile region;
};

static struct shm_node node = { PTHREAD_MUTEX_INITIALIZER, 1, NULL };
static atomic_int misses, lookups;

static void shm_map(struct shm_node *n)
{
    n->region = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < FRAMES; i++)
        n->region[i] = 100 + i;
}

static void shm_unmap(struct shm_node *n)
{
    pthread_mutex_lock(&n->mutex);
    if (--n->nref == 0) {
        int *p = n->region;
        n->region = NULL; // CAUSE
        munmap(p, 4096); // CAUSE
    }
    pthread_mutex_unlock(&n->mutex);
}

static int find_frame(struct shm_node *n, int page)
{
    int found = -1;
    int *r = n->region; // CAUSE
    atomic_fetch_add(&lookups, 1);
    if (r)
        for (int i = 0; i < FRAMES && found < 0; i++)
            if (r[i] == page) // CAUSE
                found = i;
    return found;
}

static void *reader(void *arg)
{
    (void)arg;
    for (int page = 101; page < 106; page++)
        if (find_frame(&node, page) < 0)
            atomic_fetch_add(&misses, 1);
    return NULL;
}

static void *closer(void *arg)
{
    (void)arg;
    shm_unmap(&node);
    return NULL;
}

int main(void)
{
    pthread_t a, b, c;
    shm_map(&node);
    pthread_create(&a, NULL, reader, NULL);
    pthread_create(&b, NULL, reader, NULL);
    pthread_create(&c, NULL, closer, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL);
    printf("%d misses in %d\n", atomic_load(&misses), atomic_load(&lookups));
    return node.nref;
}
