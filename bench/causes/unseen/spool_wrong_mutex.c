/* class: lost wake-up (condition variable with the wrong mutex); fails by: deadlock; cause: the spooler waits with the
 * queue's mutex for a flag that the operator changes under the state's mutex, so that resume and its signal can come
 * between the spooler's look at the flag and its wait */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define JOBS 4

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queued, printed;

static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int paused;
static int pauses;
static unsigned tray;
static unsigned paper[JOBS];

static void print_job(int job)
{
    unsigned h = job + 17;
    for (int i = 0; i < 100; i++)
        h = h * 33 + i;
    paper[job] = h;
}

static void *spooler(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&queue_lock);
    while (printed < JOBS) {
        while (queued == 0 || atomic_load(&paused)) {      // CAUSE
            pthread_cond_wait(&changed, &queue_lock);      // CAUSE
        }
        queued--;
        int job = printed++;
        pthread_mutex_unlock(&queue_lock);
        print_job(job);
        pthread_mutex_lock(&queue_lock);
    }
    pthread_mutex_unlock(&queue_lock);
    return NULL;
}

static void submit(void)
{
    pthread_mutex_lock(&queue_lock);
    queued++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&queue_lock);
}

static void pause_printer(void)
{
    pthread_mutex_lock(&state_lock);
    atomic_store(&paused, 1);
    pauses++;
    pthread_mutex_unlock(&state_lock);
}

static void resume_printer(void)
{
    pthread_mutex_lock(&state_lock);
    atomic_store(&paused, 0);                              // CAUSE
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&state_lock);
}

static void *user(void *arg)
{
    (void)arg;
    for (int i = 0; i < JOBS; i++)
        submit();
    return NULL;
}

static void *operator(void *arg)
{
    (void)arg;
    pause_printer();
    for (int s = 0; s < 40; s++)
        tray = tray * 5 + s;
    resume_printer();
    return NULL;
}

int main(void)
{
    pthread_t s, u, o;
    pthread_create(&o, NULL, operator, NULL);
    pthread_create(&s, NULL, spooler, NULL);
    pthread_create(&u, NULL, user, NULL);
    pthread_join(u, NULL);
    pthread_join(o, NULL);
    pthread_join(s, NULL);
    printf("%d jobs printed, %u\n", printed, paper[JOBS - 1] ^ tray);
    return printed != JOBS;
}
