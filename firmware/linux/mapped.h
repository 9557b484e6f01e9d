/* A mapped file of a known content, for the programs that read one. */
#ifndef MAPPED_H
#define MAPPED_H
#include "guest.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A new file of so many bytes, a page of random words again and again, mapped for reading; it is gone with its
 * mapping. */
UNUSED static const unsigned long *map_pattern(long size) {
    static unsigned long page[512];
    char name[] = "/tmp/pattern-XXXXXX";
    unsigned long state = 88172645463325252ul;
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0);
    for (int i = 0; i < 512; i++)
        page[i] = next_random(&state);
    for (long done = 0; done < size; done += (long)sizeof page)
        CHECK(write(file, page, sizeof page) == (long)sizeof page);
    const unsigned long *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(data != MAP_FAILED && close(file) == 0);
    return data;
}

#endif
