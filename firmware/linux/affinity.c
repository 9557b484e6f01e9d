/* CPU affinity: a thread that asks for one processor runs there, whatever processors there are; threads
 * inherit their creator's set; an empty set is refused. Prints no number of processors. */
#include "guest.h"
#include <sched.h>
#include <sys/syscall.h>

static int chosen;

static cpu_set_t only(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

static void *inherit(void *argument) {
    cpu_set_t set;
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0);
    CHECK(CPU_COUNT(&set) == 1 && CPU_ISSET(chosen, &set));
    for (int i = 0; i < 20; i++) {
        unsigned cpu, node;
        CHECK(sched_getcpu() == chosen);
        CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && (int)cpu == chosen);
        sched_yield();
    }
    return argument;
}

int main(void) {
    cpu_set_t all, empty;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0 && CPU_COUNT(&all) >= 1);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= CPU_COUNT(&all));
    CHECK(sysconf(_SC_NPROCESSORS_CONF) >= sysconf(_SC_NPROCESSORS_ONLN));
    CHECK(CPU_ISSET(sched_getcpu(), &all));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        cpu_set_t one = only(chosen = cpu);
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        run_threads(2, inherit);
    }
    CPU_ZERO(&empty);
    CHECK_FAILS(sched_setaffinity(0, sizeof empty, &empty), EINVAL);
    cpu_set_t set = only(chosen);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setaffinity_np(&attributes, sizeof set, &set) == 0);
    CHECK(pthread_create(&thread, &attributes, inherit, NULL) == 0);
    join(thread);
    printf("affinity: every processor served its threads\n");
    return 0;
}
