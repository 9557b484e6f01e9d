/* class: order violation (use after free); fails by: abort; cause: the media thread posts that it is done before its last use of the session, and the hang-up that waited for the post destroys the session first */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 3, FRAMES = 5, SAMPLES = 20, SESSION_MAGIC = 0x46535357 };

struct core_session {
    char uuid[24];
    volatile unsigned magic;
    sem_t *media_done;
    int codec_open;
    unsigned frames, energy;
    pthread_t media;
};

static struct {
    pthread_mutex_t lock;
    unsigned sessions, frames, energy;
} runtime = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* one for each channel, they outlive the sessions */
static sem_t media_done[SESSIONS];

static struct core_session *session_request(int n) {
    struct core_session *s = calloc(1, sizeof *s);
    snprintf(s->uuid, sizeof s->uuid, "call-%04d", n);
    s->magic = SESSION_MAGIC;
    s->media_done = &media_done[n];
    sem_init(s->media_done, 0, 0);
    return s;
}

static void session_destroy(struct core_session *s) {
    s->magic = 0; // CAUSE
    free(s);
}

static void check_session(struct core_session *s) {
    if (s->magic != SESSION_MAGIC) { // CAUSE
        fprintf(stderr, "media thread uses a session that is destroyed\n");
        abort();
    }
}

static void read_frame(struct core_session *s, int n) {
    for (int i = 0; i < SAMPLES; i++)
        s->energy += (unsigned)((n + 3) * i) % 17;
    s->frames++;
}

static void report_statistics(struct core_session *s) {
    check_session(s);
    pthread_mutex_lock(&runtime.lock);
    runtime.frames += s->frames;
    runtime.energy += s->energy;
    runtime.sessions++;
    pthread_mutex_unlock(&runtime.lock);
}

static void *media_thread(void *arg) {
    struct core_session *s = arg;
    s->codec_open = 1;
    for (int n = 0; n < FRAMES; n++)
        read_frame(s, n);
    s->codec_open = 0;
    sem_post(s->media_done); // CAUSE
    report_statistics(s);
    return NULL;
}

static pthread_t hangup_session(struct core_session *s) {
    pthread_t media = s->media;
    while (sem_wait(s->media_done) != 0)
        continue;
    if (s->codec_open)
        fprintf(stderr, "codec of %s still open\n", s->uuid);
    session_destroy(s);
    return media;
}

int main(void) {
    struct core_session *session[SESSIONS];
    pthread_t media[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        session[i] = session_request(i);
        pthread_create(&session[i]->media, NULL, media_thread, session[i]);
    }
    for (int i = 0; i < SESSIONS; i++)
        media[i] = hangup_session(session[i]);
    for (int i = 0; i < SESSIONS; i++)
        pthread_join(media[i], NULL);
    printf("%u sessions, %u frames, energy %u\n", runtime.sessions, runtime.frames, runtime.energy);
    return runtime.sessions == SESSIONS && runtime.frames == SESSIONS * FRAMES ? 0 : 1;
}
