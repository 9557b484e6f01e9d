/* class: thread cancellation (before the clean-up handler is in place); fails by: wrong result; cause: the checker thread is cancelled in the write of its first log line, before it has pushed the handler that gives up its share of the context, so the context is never freed */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum path_state { PATH_PENDING, PATH_UP, PATH_DOWN };

struct tur_checker_context {
    atomic_int holders; /* the checker and its thread */
    atomic_int state;
    pthread_t thread;
    sem_t started;
    int device;
};

static int log_pipe[2];
static atomic_int contexts_freed;

static void condlog(const char *text) {
    if (write(log_pipe[1], text, strlen(text)) < 0) // CAUSE
        exit(2);
}

static void drop_holder(struct tur_checker_context *ct) {
    if (atomic_fetch_sub(&ct->holders, 1) == 1) {
        sem_destroy(&ct->started);
        free(ct);
        atomic_fetch_add(&contexts_freed, 1);
    }
}

static void cleanup_func(void *data) {
    drop_holder(data);
}

static void *tur_thread(void *arg) {
    struct tur_checker_context *ct = arg;
    char status = 0;
    sem_post(&ct->started);
    condlog("tur checker starting up\n");
    pthread_cleanup_push(cleanup_func, ct); // CAUSE
    /* the answer of the device */
    if (read(ct->device, &status, 1) != 1)
        status = 0;
    atomic_store(&ct->state, status ? PATH_UP : PATH_DOWN);
    pthread_cleanup_pop(1);
    return NULL;
}

static struct tur_checker_context *libcheck_init(int device) {
    struct tur_checker_context *ct = calloc(1, sizeof *ct);
    if (!ct)
        exit(2);
    atomic_init(&ct->holders, 1);
    sem_init(&ct->started, 0, 0);
    ct->device = device;
    return ct;
}

static void libcheck_check(struct tur_checker_context *ct) {
    atomic_fetch_add(&ct->holders, 1);
    if (pthread_create(&ct->thread, NULL, tur_thread, ct) != 0)
        exit(2);
    while (sem_wait(&ct->started) != 0)
        ;
}

static pthread_t libcheck_free(struct tur_checker_context *ct) {
    pthread_t thread = ct->thread;
    pthread_cancel(thread); // CAUSE
    drop_holder(ct);
    return thread;
}

int main(void) {
    int device[2];
    if (pipe(log_pipe) != 0 || pipe(device) != 0)
        return 2;
    struct tur_checker_context *ct = libcheck_init(device[0]);
    libcheck_check(ct);
    int state = atomic_load(&ct->state);
    pthread_t thread = libcheck_free(ct);
    pthread_join(thread, NULL);
    int freed = atomic_load(&contexts_freed);
    for (int i = 0; i < 2; i++) {
        close(log_pipe[i]);
        close(device[i]);
    }
    printf("path state %d, %d context freed\n", state, freed);
    return freed == 1 ? 0 : 1;
}
