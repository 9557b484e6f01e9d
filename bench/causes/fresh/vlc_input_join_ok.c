/* correct twin of vlc_input_join: the playlist lets go of its lock before the join */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define BLOCKS 12

struct playlist {
    pthread_mutex_t lock;
    int position;
    int events;
    int stopped;
};

struct input {
    pthread_t thread;
    atomic_int abort;
    struct playlist *pl;
    int decoded;
};

static struct playlist pl = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct input input = { .pl = &pl };
static atomic_int ui_end;
static int shown;

static void send_event(struct input *in, int position)
{
    pthread_mutex_lock(&in->pl->lock);
    in->pl->position = position;
    in->pl->events++;
    pthread_mutex_unlock(&in->pl->lock);
}

static unsigned demux_block(int n)
{
    unsigned crc = 0;
    for (int i = 0; i < 60; i++)
        crc = crc * 31 + (unsigned)(n ^ i);
    return crc;
}

static void *input_run(void *arg)
{
    struct input *in = arg;
    unsigned crc = 0;
    for (int i = 0; i < BLOCKS && !atomic_load(&in->abort); i++) {
        crc ^= demux_block(i);
        in->decoded++;
        if (i % 4 == 3)
            send_event(in, i);
    }
    return (void *)(unsigned long)(crc & 1);
}

static void *interface_run(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&pl.lock);
        shown = pl.position;
        pthread_mutex_unlock(&pl.lock);
        sched_yield();
    }
    atomic_store(&ui_end, 1);
    return NULL;
}

static void playlist_stop(struct playlist *p, struct input *in)
{
    pthread_mutex_lock(&p->lock);
    p->stopped = 1;
    atomic_store(&in->abort, 1);
    pthread_mutex_unlock(&p->lock);
    pthread_join(in->thread, NULL);
}

int main(void)
{
    pthread_t ui;
    pthread_create(&input.thread, NULL, input_run, &input);
    pthread_create(&ui, NULL, interface_run, NULL);
    while (!atomic_load(&ui_end))
        sched_yield();
    playlist_stop(&pl, &input);
    pthread_join(ui, NULL);
    printf("%s\n", input.decoded <= BLOCKS && shown <= BLOCKS ? "stopped" : "wrong");
    return 0;
}
