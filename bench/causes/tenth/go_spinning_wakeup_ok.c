/* correct twin of go_spinning_wakeup: a worker that stops spinning looks at the run queue once more under the scheduler lock before it goes to sleep */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GOROUTINES = 3, QUIT = -1 };

struct m {
    pthread_t thread;
    atomic_int note; /* the worker sleeps on it while it is 0 */
    struct m *idle_next;
    int executed, sum;
};

static struct sched {
    pthread_mutex_t lock;
    int runq[GOROUTINES + 1];
    int head, tail;
    struct m *idle;
    atomic_int nmspinning;
} sched = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void notesleep(atomic_int *note) {
    while (atomic_load(note) == 0) {
        if (syscall(SYS_futex, note, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) != 0 && errno != EAGAIN && errno != EINTR)
            exit(2);
    }
    atomic_store(note, 0);
}

static void notewakeup(atomic_int *note) {
    atomic_store(note, 1);
    syscall(SYS_futex, note, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int runqempty(void) {
    return sched.head == sched.tail;
}

/* a goroutine of the run queue, 0 if there is none */
static int runqget(void) {
    int g = 0;
    pthread_mutex_lock(&sched.lock);
    if (!runqempty())
        g = sched.runq[sched.head++];
    pthread_mutex_unlock(&sched.lock);
    return g;
}

static void stopm(struct m *mp) {
    pthread_mutex_lock(&sched.lock);
    if (!runqempty()) {
        pthread_mutex_unlock(&sched.lock);
        return;
    }
    mp->idle_next = sched.idle;
    sched.idle = mp;
    pthread_mutex_unlock(&sched.lock);
    notesleep(&mp->note);
}

static int findrunnable(struct m *mp) {
    for (;;) {
        atomic_fetch_add(&sched.nmspinning, 1);
        int g = runqget();
        atomic_fetch_sub(&sched.nmspinning, 1);
        if (g)
            return g;
        stopm(mp);
    }
}

static void wakep(void) {
    pthread_mutex_lock(&sched.lock);
    struct m *mp = sched.idle;
    if (mp)
        sched.idle = mp->idle_next;
    pthread_mutex_unlock(&sched.lock);
    if (mp)
        notewakeup(&mp->note);
}

static void ready(int g) {
    pthread_mutex_lock(&sched.lock);
    sched.runq[sched.tail++] = g;
    pthread_mutex_unlock(&sched.lock);
    if (atomic_load(&sched.nmspinning) == 0)
        wakep();
}

static void *mstart(void *arg) {
    struct m *mp = arg;
    for (int g; (g = findrunnable(mp)) != QUIT;) {
        mp->executed++;
        mp->sum += g * 10;
    }
    return NULL;
}

int main(void) {
    static struct m m0;
    pthread_create(&m0.thread, NULL, mstart, &m0);
    for (int g = 1; g <= GOROUTINES; g++) {
        ready(g);
    }
    ready(QUIT);
    pthread_join(m0.thread, NULL);
    printf("%d goroutines, sum %d\n", m0.executed, m0.sum);
    return m0.executed == GOROUTINES && m0.sum == 60 ? 0 : 1;
}
