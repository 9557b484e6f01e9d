/* Random bytes: getrandom, /dev/urandom, /dev/random, AT_RANDOM. Prints lengths only. */
#include "guest.h"
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/random.h>

static int all_zero(const unsigned char *bytes, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum |= bytes[i];
    return sum == 0;
}

int main(void) {
    unsigned char first[256] = {0}, second[256] = {0};
    CHECK(getrandom(first, 256, 0) == 256 && getrandom(second, 256, GRND_NONBLOCK) == 256);
    CHECK(!all_zero(first, 256) && memcmp(first, second, 256) != 0);
    CHECK(getentropy(first, 32) == 0);
    static const char *const names[] = {"/dev/urandom", "/dev/random"};
    for (int i = 0; i < 2; i++) {
        int file = open(names[i], O_RDONLY);
        CHECK(file >= 0 && read(file, first, 100) == 100 && read(file, second, 100) == 100);
        CHECK(memcmp(first, second, 100) != 0 && close(file) == 0);
    }
    const unsigned char *start = (const unsigned char *)getauxval(AT_RANDOM);
    CHECK(start && !all_zero(start, 16));
    CHECK_FAILS(getrandom(first, 1, 0xffff), EINVAL);
    printf("randoms: 256, 256, 32, 100, 100, 16 bytes\n");
    return 0;
}
