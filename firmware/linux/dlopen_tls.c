/* A library opened at run time: its constructor runs, each thread has its own copy of its thread-local
 * variables, also a thread that ran before, and it is gone after dlclose. argv[1]: the library, else
 * tls_module.so beside the program. */
#include "guest.h"
#include <dlfcn.h>

#define CALLS 10

static long (*module_count)(void);
static pthread_barrier_t opened;

static void *call_module(void *argument) {
    pthread_barrier_wait(&opened); /* the thread is older than the library */
    for (long i = 0; i < CALLS; i++)
        CHECK(module_count() == 100 + i);
    return argument;
}

int main(int count, char **arguments) {
    pthread_t threads[3];
    const char *name = count > 1 ? arguments[1] : "$ORIGIN/tls_module.so";
    CHECK(pthread_barrier_init(&opened, NULL, 4) == 0);
    for (long i = 0; i < 3; i++)
        threads[i] = start(call_module, (void *)i);
    void *module = dlopen(name, RTLD_NOW);
    if (!module) {
        printf("dlopen_tls: %s\n", dlerror());
        return 1;
    }
    module_count = (long (*)(void))dlsym(module, "module_count");
    long (*constructed)(void) = (long (*)(void))dlsym(module, "module_constructed");
    CHECK(module_count && constructed && constructed() == 1);
    CHECK(dlsym(module, "no_such_function") == NULL);
    CHECK(dlopen("no_such_library.so", RTLD_NOW) == NULL);
    CHECK(module_count() == 100 && module_count() == 101);
    pthread_barrier_wait(&opened);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    CHECK(module_count() == 102);
    CHECK(dlclose(module) == 0);
    printf("dlopen_tls: constructed, 4 threads with counters of their own\n");
    return 0;
}
