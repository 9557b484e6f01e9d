/* Linked with tls_module.so, which ld.so finds beside the program by DT_RUNPATH $ORIGIN. */
#include "guest.h"

long module_constructed(void);
long module_count(void);

static void *count(void *argument) {
    CHECK(module_count() == 100 && module_count() == 101);
    return argument;
}

int main(void) {
    CHECK(module_constructed() == 1);
    run_threads(3, count);
    printf("runpath: library found, main counts from %ld\n", module_count());
    return 0;
}
