/* Embarrassingly parallel, in the manner of NAS EP: pairs of random numbers, those in the circle counted by ring.
 * Only the counts are communicated, by puts to core 0. Prints them; exit code 1 when they are wrong. */
#include "console.h"
#include "hash.h"
#include "pgas.h"

#define PAIRS 4096
#define RINGS 4
#define CHECK 19252L

static unsigned long counts; /* on core 0: RINGS of each core */
static volatile long mine[MACHINE_MAX_CORES][MACHINE_LINE_BYTES / 8] LINE_ALIGNED;

int main(long me, long cores) {
    pgas_start(me, cores);
    counts = pgas_all_alloc(me, MACHINE_MAX_CORES * RINGS * 8);
    for (long i = me; i < PAIRS; i += cores) {
        unsigned long random = hash_mix(271828183, (unsigned long)i);
        long x = (long)(random & 0xFFFF), y = (long)(random >> 16 & 0xFFFF);
        long square = x * x + y * y;
        if (square < 0x100000000L)
            mine[me][square >> 30]++;
    }
    pgas_memput((volatile long *)pgas_at(0, counts) + me * RINGS, mine[me], RINGS * 8);
    pgas_barrier();
    if (me != 0)
        return 0;
    long check = 0;
    print_string("pgas_ep: counts");
    for (long ring = 0; ring < RINGS; ring++) {
        long sum = 0;
        for (long core = 0; core < cores; core++)
            sum += ((volatile long *)pgas_at(0, counts))[core * RINGS + ring];
        print_field(" ", sum);
        check += sum * (2 * ring + 3);
    }
    print_string("\n");
    return check != CHECK;
}
