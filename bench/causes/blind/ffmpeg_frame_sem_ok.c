/* Twin of ffmpeg_frame_sem: the two frames are taken together. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#define FRAMES 2

static sem_t frames;
static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pair_mutex = PTHREAD_MUTEX_INITIALIZER;
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
    pthread_mutex_lock(&pair_mutex);
    sem_wait(&frames);
    int ref = take_frame();
    sem_wait(&frames);
    int out = take_frame();
    pthread_mutex_unlock(&pair_mutex);
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
