/* class: use after munmap; fails by: segv; cause: the rotation unmaps the old log segment while a writer that has read the pointer to it still writes its record there */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

struct segment { int used; int gen; char data[4000]; };
struct log { pthread_mutex_t lock; struct segment *volatile cur; };

static struct log lg = { PTHREAD_MUTEX_INITIALIZER, NULL };
static atomic_int records, flushed;

static struct segment *map_segment(int gen)
{
    struct segment *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s->gen = gen;
    return s;
}

static void append(struct log *l, const char *text)
{
    struct segment *s = l->cur;                   // CAUSE
    int n = (int)strlen(text);
    atomic_fetch_add(&records, 1);
    memcpy(s->data + s->used, text, n);           // CAUSE
    s->used += n;                                 // CAUSE
}

static void rotate(struct log *l, int gen)
{
    struct segment *fresh = map_segment(gen);
    pthread_mutex_lock(&l->lock);
    struct segment *old = l->cur;
    l->cur = fresh;
    atomic_fetch_add(&flushed, old->used);
    munmap(old, sizeof *old);                     // CAUSE
    pthread_mutex_unlock(&l->lock);
}

static void *writer(void *arg)
{
    for (int i = 0; i < 6; i++)
        append(&lg, arg);
    return NULL;
}

int main(void)
{
    pthread_t w;
    lg.cur = map_segment(0);
    pthread_create(&w, NULL, writer, "user logged in\n");
    rotate(&lg, 1);
    rotate(&lg, 2);
    pthread_join(w, NULL);
    rotate(&lg, 3);
    return atomic_load(&flushed) > 15 * atomic_load(&records);
}
