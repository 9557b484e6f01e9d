/* correct twin of dfree_buffer: the decrement's own result is tested */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct frame {
    atomic_int refs;
    int width;
    unsigned char *pixels;
};

static struct frame frames[4];
static unsigned char *index_of_frames;
static atomic_long checksum;

static void init_frame(struct frame *f, int width, int owners)
{
    f->width = width;
    f->pixels = malloc(width);
    memset(f->pixels, width & 15, 64);
    atomic_init(&f->refs, owners);
}

static void release(struct frame *f)
{
    if (atomic_fetch_sub(&f->refs, 1) == 1)
        free(f->pixels);
}

static long sum(const struct frame *f)
{
    long s = 0;
    for (int i = 0; i < 64; i += 4)
        s += f->pixels[i];
    return s;
}

static void *display(void *arg)
{
    for (int i = 0; i < 4; i++) {
        atomic_fetch_add(&checksum, sum(&frames[i]));
        release(&frames[i]);
    }
    return NULL;
}

static void *encoder(void *arg)
{
    for (int i = 3; i >= 0; i--) {
        atomic_fetch_add(&checksum, -sum(&frames[i]));
        release(&frames[i]);
    }
    return NULL;
}

int main(void)
{
    pthread_t d, e;
    for (int i = 0; i < 4; i++)
        init_frame(&frames[i], 2000 + i, 2);
    index_of_frames = calloc(1, 64);
    pthread_create(&d, NULL, display, NULL);
    pthread_create(&e, NULL, encoder, NULL);
    pthread_join(d, NULL);
    pthread_join(e, NULL);
    free(index_of_frames);
    return atomic_load(&checksum) != 0;
}
