/* Two threads that compute and a main that waits for them; never ends. */
#include "guest.h"

static volatile unsigned long turns[2];

static void *turn(void *argument) {
    for (;;)
        turns[(long)argument]++;
    return NULL;
}

int main(void) {
    printf("loop_forever: start\n");
    fflush(stdout);
    run_threads(2, turn);
    return 1;
}
