/* class: deadlock (semaphores); fails by: deadlock; cause: the pool has two frames and each decoder takes its reference
 * and then its output frame from it, so that two decoders can hold one each and wait for the other's.
 * Modelled on frame pools of decoders (ffmpeg's AVBufferPool limits, dav1d's picture pool). */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#define FRAMES 2

static sem_t frames;
static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static int in_pool[FRAMES] = { 1, 1 };
static atomic_int decoded;

static int take_frame(void)
{
    int got = -1;
    pthread_mutex_lock(&pool_mutex);
    for (int i = 0; i < FRAMES && got < 0; i++)
        if (in_pool[i]) {
            in_pool[i] = 0;
            got = i;
        }
    pthread_mutex_unlock(&pool_mutex);
    return got;
}

static void release_frame(int f)
{
    pthread_mutex_lock(&pool_mutex);
    in_pool[f] = 1;
    pthread_mutex_unlock(&pool_mutex);
    sem_post(&frames);
}

static void decode_one(void)
{
    sem_wait(&frames); // CAUSE
    int ref = take_frame();
    sem_wait(&frames); // CAUSE
    int out = take_frame();
    if (ref >= 0 && out >= 0 && ref != out)
        atomic_fetch_add(&decoded, 1);
    release_frame(out);
    release_frame(ref);
}

static void *decoder(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++)
        decode_one();
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    sem_init(&frames, 0, FRAMES);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, decoder, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    sem_destroy(&frames);
    printf("%d decoded\n", atomic_load(&decoded));
    return atomic_load(&decoded) != 4;
}
