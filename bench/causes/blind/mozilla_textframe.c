/* class: multi-variable invariant; fails by: exit; cause: the frame's content offset and length are changed one after the
 * other, and a thread that paints in between takes the new offset with the old length.
 * Modelled on Mozilla's nsTextFrame (mContentOffset, mContentLength), from Lu et al.'s study. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TEXT_LEN 32

struct text_frame {
    pthread_mutex_t lock;
    atomic_int offset;
    atomic_int length;
    int reflows;
};

static char content[TEXT_LEN + 1];
static struct text_frame frame = { .lock = PTHREAD_MUTEX_INITIALIZER, .offset = 0, .length = 30 };
static atomic_int overruns, painted;
static pthread_barrier_t frame_end;

static void set_range(struct text_frame *f, int offset, int length)
{
    atomic_store(&f->offset, offset); // CAUSE
    atomic_store(&f->length, length); // CAUSE
}

static void reflow(struct text_frame *f)
{
    set_range(f, 28, 4);
    pthread_mutex_lock(&f->lock);
    f->reflows++;
    pthread_mutex_unlock(&f->lock);
    set_range(f, 2, 10);
}

static void paint(struct text_frame *f)
{
    int start = atomic_load(&f->offset); // CAUSE
    int end = start + atomic_load(&f->length); // CAUSE
    int glyphs = 0;
    for (int i = start; i < end && i < TEXT_LEN; i++)
        glyphs += content[i] != ' ';
    if (end > TEXT_LEN)
        atomic_fetch_add(&overruns, 1);
    atomic_fetch_add(&painted, glyphs);
}

static void *layout_thread(void *arg)
{
    (void)arg;
    reflow(&frame);
    pthread_barrier_wait(&frame_end);
    return NULL;
}

static void *paint_thread(void *arg)
{
    int times = (int)(long)arg;
    for (int i = 0; i < times; i++)
        paint(&frame);
    pthread_barrier_wait(&frame_end);
    paint(&frame);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_barrier_init(&frame_end, NULL, 2);
    memset(content, 'x', TEXT_LEN);
    pthread_create(&a, NULL, layout_thread, NULL);
    pthread_create(&b, NULL, paint_thread, (void *)3);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d painted, %d overruns, %d reflows\n", atomic_load(&painted), atomic_load(&overruns), frame.reflows);
    return atomic_load(&overruns) != 0;
}
