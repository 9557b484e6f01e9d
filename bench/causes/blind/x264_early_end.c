/* class: order violation (a thread ends too early); fails by: exit; cause: the writer thread takes "no encoders active
 * and nothing queued" for the end, though the second encoder has not registered itself yet, and its frames are lost.
 * Modelled on thread pools such as x264's and ffmpeg's muxer threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define CAP 16

struct fifo {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int frames[CAP];
    int size, pos;
    int active;
};

static struct fifo out = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };
static atomic_int bits;

static int encode(int frame)
{
    int cost = 0;
    for (int mb = 0; mb < 20; mb++)
        cost += (frame ^ mb) & 3;
    return cost;
}

static void *encoder(void *arg)
{
    int first = (int)(long)arg;
    pthread_mutex_lock(&out.mutex);
    out.active++; // CAUSE
    pthread_mutex_unlock(&out.mutex);
    for (int f = first; f < first + 3; f++) {
        atomic_fetch_add(&bits, encode(f));
        pthread_mutex_lock(&out.mutex);
        out.frames[out.size++] = f;
        pthread_cond_signal(&out.cond);
        pthread_mutex_unlock(&out.mutex);
    }
    pthread_mutex_lock(&out.mutex);
    out.active--; // CAUSE
    pthread_cond_signal(&out.cond);
    pthread_mutex_unlock(&out.mutex);
    return NULL;
}

static void *writer(void *arg)
{
    long written = 0;
    (void)arg;
    pthread_mutex_lock(&out.mutex);
    while (out.size == 0)
        pthread_cond_wait(&out.cond, &out.mutex);
    while (out.pos < out.size || out.active > 0) { // CAUSE
        if (out.pos == out.size) {
            pthread_cond_wait(&out.cond, &out.mutex);
            continue;
        }
        written += out.frames[out.pos++];
    }
    pthread_mutex_unlock(&out.mutex);
    return (void *)written;
}

int main(void)
{
    pthread_t e[2], w;
    void *written;
    pthread_create(&e[0], NULL, encoder, (void *)10);
    pthread_create(&e[1], NULL, encoder, (void *)20);
    pthread_create(&w, NULL, writer, NULL);
    pthread_join(w, &written);
    for (int i = 0; i < 2; i++)
        pthread_join(e[i], NULL);
    printf("written %ld of %d, %d bits\n", (long)written, out.size, atomic_load(&bits));
    return (long)written != 96;
}
