/* class: late thread at exit; fails by: SIGSEGV; cause: a daemon thread looks whether the interpreter finalizes before it takes the GIL and not after, so that it runs bytecode in an interpreter that main has already deleted */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TICKS 30

struct interp { long ticks; long modules; int stack[8]; };

static struct interp *interp;
static atomic_int finalizing;
static pthread_mutex_t gil = PTHREAD_MUTEX_INITIALIZER;
static long flushed;

static void take_gil(void) { pthread_mutex_lock(&gil); }
static void drop_gil(void) { pthread_mutex_unlock(&gil); }

static void eval_frame(int tick)
{
    struct interp *in = interp;                   // CAUSE
    in->stack[tick % 8] = tick;
    in->ticks++;
}

static void *daemon_thread(void *arg)
{
    (void)arg;
    for (int i = 0; i < TICKS; i++) {
        if (atomic_load(&finalizing))             // CAUSE
            return NULL;
        take_gil();
        eval_frame(i);
        drop_gil();
        sched_yield();
    }
    return NULL;
}

static void start_daemon(void)
{
    pthread_t t;
    pthread_create(&t, NULL, daemon_thread, NULL);
    pthread_detach(t);
}

static void flush_std_files(void)
{
    volatile long n = 0;
    for (int i = 0; i < 200; i++)
        n += i;
    flushed = n;
}

static long finalize(void)
{
    long ticks;
    atomic_store(&finalizing, 1);
    take_gil();
    ticks = interp->ticks;
    free(interp);
    interp = NULL;                                // CAUSE
    drop_gil();
    flush_std_files();
    return ticks;
}

int main(void)
{
    interp = calloc(1, sizeof *interp);
    start_daemon();
    start_daemon();
    for (int i = 0; i < 10; i++) {
        take_gil();
        interp->modules++;
        drop_gil();
        sched_yield();
    }
    long ticks = finalize();
    printf("%s\n", ticks <= 2 * TICKS ? "ok" : "too many ticks");
    return 0;
}
