/* A thread ends the whole process with exit code 7, while others run, wait and sleep. */
#include "guest.h"
#include <stdlib.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static volatile long turns;

static void *stay(void *argument) {
    switch ((long)argument) {
    case 0:
        for (;;)
            turns = turns + 1;
    case 1:
        pthread_mutex_lock(&held);
        break;
    default:
        sleep(1000000);
    }
    return NULL;
}

static void *end(void *argument) {
    sleep_ms(1);
    printf("exit_seven: exit\n");
    exit(argument ? 7 : 8);
}

int main(void) {
    pthread_mutex_lock(&held);
    for (long i = 0; i < 3; i++)
        start(stay, (void *)i);
    join(start(end, "now"));
    return 9;
}
