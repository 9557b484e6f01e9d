/* class: thread cancellation while holding a lock; fails by: deadlock; cause: the cancel request becomes effective in the timer thread's write call inside the critical section, the thread ends without unlocking reg.lock, and main's later lock of it never returns */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

enum { EVENTS = 6, TICKS = 4 };

struct gf_event {
    unsigned when;
    unsigned fired;
    void (*fn)(struct gf_event *);
};

static struct gf_registry {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    std::vector<gf_event> ev = std::vector<gf_event>(EVENTS);
    unsigned now = 0;
    int trace_fd = -1;
    unsigned long dispatched = 0;
} reg;

static sem_t tick, first_tick;
static pthread_mutex_t stat_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned calls_done;

static void on_timer(struct gf_event *e) {
    e->fired++;
}

static void trace(unsigned now) {
    std::string s = std::to_string(now);
    if (write(reg.trace_fd, s.data(), s.size()) < 0) // CAUSE
        reg.trace_fd = -1;
}

static void timer_fire(void) {
    pthread_mutex_lock(&reg.lock); // CAUSE
    reg.now++;
    for (int i = 0; i < EVENTS; i++)
        if (reg.ev[i].fn && reg.ev[i].when == reg.now) {
            reg.ev[i].fn(&reg.ev[i]);
            reg.dispatched++;
        }
    trace(reg.now);
    pthread_mutex_unlock(&reg.lock);
}

static void *timer_proc(void *arg) {
    (void)arg;
    for (;;) {
        while (sem_wait(&tick) != 0)
            ;
        timer_fire();
        sem_post(&first_tick);
    }
    return nullptr;
}

static void *caller(void *arg) {
    gf_event *e = static_cast<gf_event *>(arg);
    for (unsigned i = 0; i < 5; i++) {
        pthread_mutex_lock(&reg.lock);
        if (!e->fired)
            e->when = reg.now + 1;
        e->fn = on_timer;
        pthread_mutex_unlock(&reg.lock);
        pthread_mutex_lock(&stat_lock);
        calls_done++;
        pthread_mutex_unlock(&stat_lock);
    }
    return nullptr;
}

static void registry_destroy(pthread_t timer) {
    pthread_cancel(timer); // CAUSE
    pthread_join(timer, nullptr);
    pthread_mutex_lock(&reg.lock); // CAUSE
    for (int i = 0; i < EVENTS; i++)
        reg.ev[i].fn = nullptr;
    pthread_mutex_unlock(&reg.lock);
}

int main(void) {
    pthread_t timer, c[2];
    sem_init(&tick, 0, 0);
    sem_init(&first_tick, 0, 0);
    reg.trace_fd = open("/dev/null", O_WRONLY);
    pthread_create(&timer, nullptr, timer_proc, nullptr);
    pthread_create(&c[0], nullptr, caller, &reg.ev[0]);
    pthread_create(&c[1], nullptr, caller, &reg.ev[3]);
    for (int i = 0; i < TICKS; i++) {
        sem_post(&tick);
        while (i < TICKS - 1 && sem_wait(&first_tick) != 0)
            ;
    }
    pthread_join(c[0], nullptr);
    pthread_join(c[1], nullptr);
    usleep(1000);
    registry_destroy(timer);
    printf("now %u dispatched %lu calls %u\n", reg.now, reg.dispatched, calls_done);
    return calls_done == 10 ? 0 : 1;
}
