/* Allocates and writes memory until there is none: with a limit, malloc fails (exit code 0) or the program is
 * killed. Never run it without a limit (ulimit -v, --memory). */
#include "guest.h"
#include <stdlib.h>

#define BLOCK (1L << 20)

int main(void) {
    long blocks = 0;
    printf("alloc_forever: start\n");
    fflush(stdout);
    for (char *block; (block = malloc(BLOCK)) != NULL; blocks++)
        for (long i = 0; i < BLOCK; i += 4096)
            ((volatile char *)block)[i] = 1;
    CHECK(errno == ENOMEM && blocks > 0);
    printf("alloc_forever: refused\n");
    return 0;
}
