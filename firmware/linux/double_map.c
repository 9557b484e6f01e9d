/* One page of a file mapped shared at two addresses, as ring buffers and dual mappings of code do: what is
 * written at one is there at the other, also for another thread. Uses the file double_map.tmp in the current
 * directory. */
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

#define PAGE 4096L
#define FILE_NAME "double_map.tmp"

static char *writable, *readable;

static void *write_there(void *argument) {
    strcpy(writable + 100, "second");
    return argument;
}

int main(void) {
    int file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
    printf("double_map: before\n");
    fflush(stdout);
    writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    readable = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(unlink(FILE_NAME) == 0 && writable != MAP_FAILED && readable != MAP_FAILED && writable != readable);
    strcpy(writable, "first");
    CHECK(strcmp(readable, "first") == 0);
    join(start(write_there, NULL));
    CHECK(strcmp(readable + 100, "second") == 0);
    printf("double_map: the same at both addresses\n");
    return 0;
}
