/* repaired twin of gperftools_prof_signal.c */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 2, REGISTRATIONS = 4, TICKS = 3, MAX_CALLBACKS = 4, STEPS = 1000 };

typedef void (*prof_callback)(void *arg);

struct token {
    prof_callback fn;
    void *arg;
    bool used;
};

static struct handler {
    pthread_mutex_t signal_lock;
    struct token callbacks[MAX_CALLBACKS];
    unsigned interrupts;
    unsigned registered;
} prof = { .signal_lock = PTHREAD_MUTEX_INITIALIZER };

struct worker {
    pthread_t tid;
    unsigned id;
    unsigned long samples;
    unsigned long result;
};

static struct worker workers[WORKERS];

static void lock_callbacks(sigset_t *saved) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &s, saved);
    pthread_mutex_lock(&prof.signal_lock);
}

static void unlock_callbacks(const sigset_t *saved) {
    pthread_mutex_unlock(&prof.signal_lock);
    pthread_sigmask(SIG_SETMASK, saved, NULL);
}

static struct token *register_callback(prof_callback fn, void *arg) {
    struct token *found = NULL;
    sigset_t saved;
    lock_callbacks(&saved);
    for (int i = 0; i < MAX_CALLBACKS && !found; i++)
        if (!prof.callbacks[i].used)
            found = &prof.callbacks[i];
    if (found) {
        found->fn = fn, found->arg = arg, found->used = true;
        prof.registered++;
    }
    unlock_callbacks(&saved);
    return found;
}

static void unregister_callback(struct token *t) {
    sigset_t saved;
    lock_callbacks(&saved);
    t->used = false;
    unlock_callbacks(&saved);
}

static void signal_handler(int sig) {
    (void)sig;
    pthread_mutex_lock(&prof.signal_lock);
    prof.interrupts++;
    for (int i = 0; i < MAX_CALLBACKS; i++)
        if (prof.callbacks[i].used)
            prof.callbacks[i].fn(prof.callbacks[i].arg);
    pthread_mutex_unlock(&prof.signal_lock);
}

static void count_sample(void *arg) {
    struct worker *w = arg;
    w->samples++;
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    for (unsigned r = 0; r < REGISTRATIONS; r++) {
        struct token *t = register_callback(count_sample, w);
        for (unsigned i = 0; i < STEPS; i++)
            w->result = w->result * 33 + i + w->id;
        unregister_callback(t);
    }
    return NULL;
}

static void *sampler(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < TICKS * WORKERS; i++) {
        pthread_kill(workers[i % WORKERS].tid, SIGPROF);
    }
    return NULL;
}

int main(void) {
    pthread_t s;
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = signal_handler;
    sa.sa_flags = SA_RESTART;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGPROF, &sa, NULL);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].id = i;
        pthread_create(&workers[i].tid, NULL, worker_main, &workers[i]);
    }
    pthread_create(&s, NULL, sampler, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].tid, NULL);
    pthread_join(s, NULL);
    printf("registered %u interrupts %u\n", prof.registered, prof.interrupts);
    return prof.registered == WORKERS * REGISTRATIONS ? 0 : 1;
}
