/* class: publication before initialisation (array); fails by: exit; cause: the decoder reports progress on a row
 * before it has filtered the row's last pixels, and the next frame's thread predicts from the unfiltered ones.
 * Modelled on ffmpeg's frame threading (ff_thread_report_progress, h264/vp8 loop filter). */
#include <pthread.h>
#include <stdio.h>

#define ROWS 3
#define WIDTH 8

struct frame {
    pthread_mutex_t progress_mutex;
    pthread_cond_t progress_cond;
    int progress;
    unsigned char data[ROWS][WIDTH];
};

static struct frame ref = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, { { 0 } } };
static struct frame cur = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, { { 0 } } };

static void report_progress(struct frame *f, int rows)
{
    pthread_mutex_lock(&f->progress_mutex);
    f->progress = rows; // CAUSE
    pthread_cond_broadcast(&f->progress_cond);
    pthread_mutex_unlock(&f->progress_mutex);
}

static void await_progress(struct frame *f, int rows)
{
    pthread_mutex_lock(&f->progress_mutex);
    while (f->progress < rows) // CAUSE
        pthread_cond_wait(&f->progress_cond, &f->progress_mutex);
    pthread_mutex_unlock(&f->progress_mutex);
}

static void *decode_ref(void *arg)
{
    (void)arg;
    for (int y = 0; y < ROWS; y++) {
        for (int x = 0; x < WIDTH - 2; x++)
            ref.data[y][x] = (unsigned char)(16 * y + x);
        report_progress(&ref, y + 1);
        for (int x = WIDTH - 2; x < WIDTH; x++)
            ref.data[y][x] = (unsigned char)(16 * y + x); // CAUSE
    }
    return NULL;
}

static void *decode_cur(void *arg)
{
    (void)arg;
    for (int y = 0; y < ROWS; y++) {
        await_progress(&ref, y + 1);
        for (int x = 0; x < WIDTH; x++)
            cur.data[y][x] = ref.data[y][x] + 1; // CAUSE
        report_progress(&cur, y + 1);
    }
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int wrong = 0;
    pthread_create(&a, NULL, decode_ref, NULL);
    pthread_create(&b, NULL, decode_cur, NULL);
    await_progress(&cur, ROWS);
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < WIDTH; x++)
            wrong += cur.data[y][x] != 16 * y + x + 1;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d pixels wrong\n", wrong);
    return wrong != 0;
}
