/* repaired twin of openssh_sigalrm_log.c */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { AUTH_STEPS = 12, LOG_LINES = 16, LINE = 32 };

static struct logger {
    pthread_mutex_t lock;
    char lines[LOG_LINES][LINE];
    unsigned next;
    unsigned long total;
} logger = { .lock = PTHREAD_MUTEX_INITIALIZER };

static volatile sig_atomic_t grace_expired;
static sem_t session_started;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned stat_steps;

static void do_log(const char *msg) {
    pthread_mutex_lock(&logger.lock);
    char *line = logger.lines[logger.next % LOG_LINES];
    size_t n = strlen(msg);
    if (n >= LINE)
        n = LINE - 1;
    memcpy(line, msg, n);
    line[n] = 0;
    logger.next++;
    logger.total++;
    pthread_mutex_unlock(&logger.lock);
}

static void grace_alarm_handler(int sig) {
    (void)sig;
    grace_expired = 1;
}

static unsigned authenticate(unsigned step) {
    unsigned h = 5381 + step;
    for (int i = 0; i < 40; i++)
        h = h * 33 ^ (unsigned)i;
    pthread_mutex_lock(&stat_lock);
    stat_steps++;
    pthread_mutex_unlock(&stat_lock);
    return h;
}

static void *session(void *arg) {
    unsigned h = 0;
    (void)arg;
    sem_post(&session_started);
    for (unsigned i = 0; i < AUTH_STEPS; i++) {
        if (grace_expired) {
            do_log("timeout before authentication");
            return (void *)1;
        }
        h ^= authenticate(i);
        if (i % 6 == 5)
            do_log(h & 1 ? "auth method tried" : "auth method failed");
    }
    return NULL;
}

static void *listener(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++) {
        authenticate(100);
        do_log("connection accepted");
    }
    return NULL;
}

int main(void) {
    struct sigaction sa;
    pthread_t s, l;
    void *timed_out;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = grace_alarm_handler;
    sigaction(SIGALRM, &sa, NULL);
    sem_init(&session_started, 0, 0);
    pthread_create(&s, NULL, session, NULL);
    pthread_create(&l, NULL, listener, NULL);
    while (sem_wait(&session_started) != 0)
        ;
    authenticate(200);
    pthread_kill(s, SIGALRM);     /* LoginGraceTime is over */
    pthread_join(s, &timed_out);
    pthread_join(l, NULL);
    printf("%s after %u steps, %lu log lines\n", timed_out ? "timed out" : "done", stat_steps, logger.total);
    return logger.total >= 3 ? 0 : 1;
}
