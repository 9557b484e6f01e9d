/* class: deadlock via callback; fails by: hang; cause: a streaming thread posts a message and calls the application's sync handler with the bus lock held, the handler takes the player lock, while the application thread holds the player lock and takes the bus lock to pop messages */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { STREAMS = 2, BUFFERS = 5, QSIZE = 16, POLLS = 4, SAMPLES = 64 };
enum msg_type { MSG_TAG, MSG_STATE, MSG_EOS };

struct message {
    enum msg_type type;
    unsigned src;
    long value;
};

typedef void (*sync_handler)(const struct message *msg, void *user);

struct bus {
    pthread_mutex_t lock;
    struct message queue[QSIZE];
    unsigned head, tail;
    sync_handler handler;
    void *user;
};

struct player {
    pthread_mutex_t lock;
    struct bus *bus;
    unsigned eos, tags;
    long level;
    unsigned popped;
};

struct stream {
    unsigned id;
    struct bus *bus;
    short samples[SAMPLES];
};

static void bus_post(struct bus *b, struct message m) {
    pthread_mutex_lock(&b->lock); // CAUSE
    b->queue[b->tail++ % QSIZE] = m;
    if (b->handler)
        b->handler(&m, b->user);
    pthread_mutex_unlock(&b->lock);
}

static bool bus_pop(struct bus *b, struct message *out) {
    bool have = false;
    pthread_mutex_lock(&b->lock); // CAUSE
    if (b->head != b->tail) {
        *out = b->queue[b->head++ % QSIZE];
        have = true;
    }
    pthread_mutex_unlock(&b->lock);
    return have;
}

static void player_on_message(const struct message *m, void *user) {
    struct player *p = user;
    pthread_mutex_lock(&p->lock); // CAUSE
    if (m->type == MSG_EOS)
        p->eos++;
    else
        p->tags++;
    if (m->value > p->level)
        p->level = m->value;
    pthread_mutex_unlock(&p->lock);
}

static void player_poll(struct player *p) {
    struct message m;
    pthread_mutex_lock(&p->lock); // CAUSE
    while (bus_pop(p->bus, &m))
        p->popped++;
    pthread_mutex_unlock(&p->lock);
}

static void *streaming_thread(void *arg) {
    struct stream *s = arg;
    for (unsigned i = 0; i < BUFFERS; i++) {
        long level = 0;
        for (unsigned k = 0; k < SAMPLES; k++) {
            s->samples[k] = (short)(s->samples[k] * 3 + (short)(i * k));
            level += s->samples[k] & 0xff;
        }
        struct message m = { i == BUFFERS - 1 ? MSG_EOS : MSG_TAG, s->id, level };
        bus_post(s->bus, m);
    }
    return NULL;
}

static void *app_thread(void *arg) {
    for (int i = 0; i < POLLS; i++)
        player_poll(arg);
    return NULL;
}

int main(void) {
    static struct bus bus = { .lock = PTHREAD_MUTEX_INITIALIZER };
    static struct player player = { .lock = PTHREAD_MUTEX_INITIALIZER };
    static struct stream streams[STREAMS];
    pthread_t t[STREAMS + 1];
    player.bus = &bus;
    bus.handler = player_on_message;
    bus.user = &player;
    for (unsigned i = 0; i < STREAMS; i++) {
        streams[i].id = i;
        streams[i].bus = &bus;
        pthread_create(&t[i], NULL, streaming_thread, &streams[i]);
    }
    pthread_create(&t[STREAMS], NULL, app_thread, &player);
    for (int i = 0; i <= STREAMS; i++)
        pthread_join(t[i], NULL);
    player_poll(&player);
    printf("eos %u tags %u popped %u level %ld\n", player.eos, player.tags, player.popped, player.level);
    return player.eos == STREAMS && player.popped == STREAMS * BUFFERS ? 0 : 1;
}
