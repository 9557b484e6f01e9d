/* class: order violation (use after free); fails by: abort; cause: SDL_RemoveTimer marks the timer as canceled and returns while the timer thread, which has looked at the mark already, still runs the callback on data that the caller then frees */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMERS = 3, TICKS = 4, SPRITE_MAGIC = 0x53505254 };

typedef unsigned (*timer_callback)(unsigned interval, void *param);

struct timer {
    struct timer *next;
    int id;
    unsigned interval, scheduled;
    timer_callback callback;
    void *param;
    int canceled;
};

static struct {
    pthread_mutex_t lock;
    sem_t tick;
    struct timer *timers;
    unsigned now, fired;
    int active, next_id;
} data = { .lock = PTHREAD_MUTEX_INITIALIZER, .active = 1, .next_id = 1 };

static int SDL_AddTimer(unsigned interval, timer_callback callback, void *param) {
    struct timer *t = calloc(1, sizeof *t);
    t->interval = interval;
    t->callback = callback;
    t->param = param;
    pthread_mutex_lock(&data.lock);
    t->id = data.next_id++;
    t->scheduled = data.now + interval;
    t->next = data.timers;
    data.timers = t;
    pthread_mutex_unlock(&data.lock);
    return t->id;
}

static int SDL_RemoveTimer(int id) {
    int found = 0;
    pthread_mutex_lock(&data.lock);
    for (struct timer *t = data.timers; t; t = t->next) {
        if (t->id == id && !t->canceled) {
            t->canceled = 1;
            found = 1;
        }
    }
    pthread_mutex_unlock(&data.lock);
    return found;
}

static void run_due_timers(void) {
    pthread_mutex_lock(&data.lock);
    data.now++;
    for (struct timer *t = data.timers; t; t = t->next) {
        if (t->canceled || t->scheduled > data.now) // CAUSE
            continue;
        pthread_mutex_unlock(&data.lock);
        unsigned interval = t->callback(t->interval, t->param);
        pthread_mutex_lock(&data.lock);
        t->scheduled = data.now + interval;
        data.fired++;
    }
    pthread_mutex_unlock(&data.lock);
}

static void *timer_thread(void *arg) {
    (void)arg;
    for (;;) {
        sem_wait(&data.tick);
        pthread_mutex_lock(&data.lock);
        int active = data.active;
        pthread_mutex_unlock(&data.lock);
        if (!active)
            return NULL;
        run_due_timers();
    }
}

struct sprite {
    int x, y;
    char name[24];
    volatile unsigned magic;
    unsigned frame;
};

static unsigned animate(unsigned interval, void *param) {
    struct sprite *s = param;
    if (s->magic != SPRITE_MAGIC) // CAUSE
        abort();
    s->frame = (s->frame + 1) % 8;
    return interval;
}

static void free_sprite(struct sprite *s) {
    s->magic = 0; // CAUSE
    free(s);
}

int main(void) {
    struct sprite *sprite[TIMERS];
    int id[TIMERS], removed = 0;
    pthread_t thread;
    sem_init(&data.tick, 0, 0);
    pthread_create(&thread, NULL, timer_thread, NULL);
    for (int i = 0; i < TIMERS; i++) {
        sprite[i] = calloc(1, sizeof *sprite[i]);
        snprintf(sprite[i]->name, sizeof sprite[i]->name, "sprite %d", i);
        sprite[i]->magic = SPRITE_MAGIC;
        id[i] = SDL_AddTimer(1, animate, sprite[i]);
    }
    for (int i = 0; i < TICKS; i++)
        sem_post(&data.tick);
    for (int i = 0; i < TIMERS; i++) {
        removed += SDL_RemoveTimer(id[i]);
        free_sprite(sprite[i]);
    }
    pthread_mutex_lock(&data.lock);
    data.active = 0;
    pthread_mutex_unlock(&data.lock);
    sem_post(&data.tick);
    pthread_join(thread, NULL);
    printf("%u callbacks, %d timers removed\n", data.fired, removed);
    while (data.timers) {
        struct timer *t = data.timers;
        data.timers = t->next;
        free(t);
    }
    return removed == TIMERS ? 0 : 1;
}
