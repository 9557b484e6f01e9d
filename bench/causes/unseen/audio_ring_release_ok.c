/* correct twin of audio_ring_release: the frame is copied before the read index moves */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define SLOTS 2
#define FRAMES 10
#define CHANNELS 4

struct frame { int sample[CHANNELS]; };

static struct {
    struct frame slot[SLOTS];
    atomic_uint read_index, write_index;
} ring;

static long decoded, heard;
static int mixed[FRAMES];

static int ring_write(const struct frame *f)
{
    unsigned w = atomic_load(&ring.write_index);
    if (w - atomic_load(&ring.read_index) == SLOTS)
        return 0;
    struct frame *s = &ring.slot[w % SLOTS];
    for (int c = 0; c < CHANNELS; c++)
        s->sample[c] = f->sample[c];
    atomic_store(&ring.write_index, w + 1);
    return 1;
}

static int ring_read(struct frame *f)
{
    unsigned r = atomic_load(&ring.read_index);
    if (r == atomic_load(&ring.write_index))
        return 0;
    const struct frame *s = &ring.slot[r % SLOTS];
    for (int c = 0; c < CHANNELS; c++)
        f->sample[c] = s->sample[c];
    atomic_store(&ring.read_index, r + 1);
    return 1;
}

static void *decoder(void *arg)
{
    (void)arg;
    for (int i = 0; i < FRAMES; i++) {
        struct frame f;
        for (int c = 0; c < CHANNELS; c++) {
            f.sample[c] = (i + 1) * 10 + c;
            decoded += f.sample[c];
        }
        while (!ring_write(&f))
            sched_yield();
    }
    return NULL;
}

static int mix(const struct frame *f)
{
    int sum = 0;
    for (int c = 0; c < CHANNELS; c++)
        sum += f->sample[c];
    return sum;
}

static void *player(void *arg)
{
    (void)arg;
    for (int i = 0; i < FRAMES; i++) {
        struct frame f;
        while (!ring_read(&f))
            sched_yield();
        mixed[i] = mix(&f);
    }
    return NULL;
}

int main(void)
{
    pthread_t d, p;
    pthread_create(&d, NULL, decoder, NULL);
    pthread_create(&p, NULL, player, NULL);
    pthread_join(d, NULL);
    pthread_join(p, NULL);
    for (int i = 0; i < FRAMES; i++)
        heard += mixed[i];
    printf("decoded %ld, heard %ld\n", decoded, heard);
    return heard != decoded;
}
