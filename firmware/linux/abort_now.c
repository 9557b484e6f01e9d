/* A failed assertion in a thread: SIGABRT (exit code 134). */
#undef NDEBUG
#include "guest.h"
#include <assert.h>

static void *check(void *argument) {
    long answer = (long)argument;
    assert(answer == 42);
    return NULL;
}

int main(void) {
    join(start(check, (void *)42L));
    printf("abort_now: one thread was right\n");
    fflush(stdout);
    join(start(check, (void *)43L));
    return 0;
}
