/* Clocks: none runs backwards, sleeps and waits last at least as long as asked, an absolute time that is
 * over returns at once, timers of a process (timer_create). Prints verdicts, no times. */
#include "guest.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

static const clockid_t clocks[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                   CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,  CLOCK_PROCESS_CPUTIME_ID,
                                   CLOCK_THREAD_CPUTIME_ID};
static volatile sig_atomic_t ticks;

static void *never_back(void *argument) {
    struct timespec resolution;
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        long before = now(clocks[i]);
        for (int j = 0; j < 20; j++) {
            long after = now(clocks[i]);
            CHECK(after >= before);
            before = after;
        }
        CHECK(clock_getres(clocks[i], &resolution) == 0 && resolution.tv_nsec > 0);
    }
    return argument;
}

/* Time passes while a thread computes, on the clocks of the machine, the process and the thread. */
static void check_work(void) {
    long before = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    for (volatile long i = 0; i < 20000; i++)
        ;
    CHECK(now(CLOCK_MONOTONIC) > before && now(CLOCK_THREAD_CPUTIME_ID) > cpu);
    CHECK(now(CLOCK_PROCESS_CPUTIME_ID) >= now(CLOCK_THREAD_CPUTIME_ID));
}

/* Time stamps tick at some GHz: programs that wait by them rely on it. */
static void check_stamps(void) {
    long before = now(CLOCK_MONOTONIC), ticks = (long)__builtin_ia32_rdtsc();
    sleep_ms(5);
    ticks = (long)__builtin_ia32_rdtsc() - ticks;
    long after = now(CLOCK_MONOTONIC);
    CHECK(ticks / 8 < after - before && after - before < ticks * 2);
}

static void check_sleeps(void) {
    for (long milliseconds = 1; milliseconds <= 16; milliseconds *= 4) {
        struct timespec time = timespec_of(milliseconds * MILLISECOND);
        long before = now(CLOCK_MONOTONIC);
        CHECK(nanosleep(&time, NULL) == 0);
        CHECK(now(CLOCK_MONOTONIC) - before >= milliseconds * MILLISECOND);
        time = time_from_now(CLOCK_MONOTONIC, milliseconds);
        CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
        CHECK(now(CLOCK_MONOTONIC) >= time.tv_sec * SECOND + time.tv_nsec);
        time = time_from_now(CLOCK_REALTIME, milliseconds);
        CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL) == 0);
        CHECK(now(CLOCK_REALTIME) >= time.tv_sec * SECOND + time.tv_nsec);
    }
    struct timespec over = {1, 0}, wrong = {0, SECOND};
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &over, NULL) == 0);
    CHECK_FAILS(nanosleep(&wrong, NULL), EINVAL);
    CHECK(usleep(1000) == 0);
}

static void check_agreement(void) {
    struct timeval of_day;
    struct tms used;
    struct rusage usage;
    long seconds = time(NULL);
    CHECK(gettimeofday(&of_day, NULL) == 0 && of_day.tv_sec >= seconds && of_day.tv_sec <= seconds + 60);
    long difference = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
    sleep_ms(5);
    long later = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
    CHECK(later - difference < 200 * MILLISECOND && difference - later < 200 * MILLISECOND);
    CHECK(seconds > 1500000000 && times(&used) != -1 && getrusage(RUSAGE_SELF, &usage) == 0);
}

static void tick(int signal) {
    CHECK(signal == SIGRTMIN);
    ticks++;
}

static void check_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec every = {timespec_of(2 * MILLISECOND), timespec_of(MILLISECOND)}, left;
    timer_t timer;
    long before = now(CLOCK_MONOTONIC);
    CHECK(signal(SIGRTMIN, tick) == SIG_DFL);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    while (ticks < 3)
        CHECK_FAILS(pause(), EINTR);
    CHECK(now(CLOCK_MONOTONIC) - before >= 5 * MILLISECOND);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 2 * MILLISECOND);
    CHECK(timer_delete(timer) == 0);
}

int main(void) {
    never_back(NULL);
    run_threads(3, never_back);
    check_work();
    check_stamps();
    check_sleeps();
    check_agreement();
    check_timer();
    printf("clocks: never back, sleeps long enough, clocks agree, timer ticks\n");
    return 0;
}
