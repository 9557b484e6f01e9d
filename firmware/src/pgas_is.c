/* Integer sort, in the manner of NAS IS: keys are counted by bucket, put to the core that has the bucket, and
 * sorted there. Prints keys that are in order and a checksum of their places; exit code 1 when they are wrong. */
#include "console.h"
#include "hash.h"
#include "pgas.h"

#define KEYS 512
#define BUCKETS 64 /* bucket b is core b * cores / BUCKETS's */
#define KEY_BITS 10
#define CHECKSUM 87079506L

static unsigned long sizes; /* on every core: for each core how many keys it sends here */
static unsigned long places; /* on every core: where in its keys each core may put its own */
static unsigned long keys; /* on every core: room for all keys */

static long bucket_owner(long key, long cores) { return (key >> (KEY_BITS - 6)) * cores / BUCKETS; }
static long key_of(long i) { return (long)(hash_mix(314159265, (unsigned long)i) >> (64 - KEY_BITS)); }

int main(long me, long cores) {
    static volatile long sent[MACHINE_MAX_CORES][MACHINE_MAX_CORES] LINE_ALIGNED;
    static volatile long buffer[MACHINE_MAX_CORES][KEYS] LINE_ALIGNED;
    pgas_start(me, cores);
    sizes = pgas_all_alloc(me, MACHINE_MAX_CORES * 8);
    places = pgas_all_alloc(me, MACHINE_MAX_CORES * 8);
    keys = pgas_all_alloc(me, KEYS * 8);
    for (long i = me; i < KEYS; i += cores)
        sent[me][bucket_owner(key_of(i), cores)]++;
    for (long core = 0; core < cores; core++)
        pgas_put_nb((volatile long *)pgas_at(core, sizes) + me, &sent[me][core], 8);
    pgas_barrier();
    volatile long *my_sizes = pgas_at(me, sizes), *my_places = pgas_at(me, places), *my_keys = pgas_at(me, keys);
    long held = 0;
    for (long core = 0; core < cores; core++) {
        my_places[core] = held;
        held += my_sizes[core];
    }
    pgas_barrier();
    for (long core = 0, at = 0; core < cores; core++) {
        long first = at;
        for (long i = me; i < KEYS; i += cores)
            if (bucket_owner(key_of(i), cores) == core)
                buffer[me][at++] = key_of(i);
        if (at > first) {
            long there = pgas_get_word((volatile long *)pgas_at(core, places) + me);
            pgas_put_nb((volatile long *)pgas_at(core, keys) + there, &buffer[me][first], (unsigned long)(at - first) * 8);
        }
    }
    pgas_barrier();
    for (long i = 1; i < held; i++) /* few keys: by insertion */
        for (long k = i; k > 0 && my_keys[k - 1] > my_keys[k]; k--) {
            long key = my_keys[k];
            my_keys[k] = my_keys[k - 1];
            my_keys[k - 1] = key;
        }
    pgas_barrier();
    if (me != 0)
        return 0;
    long rank = 0, before = -1, in_order = 0, checksum = 0;
    for (long core = 0; core < cores; core++) {
        long n = 0;
        for (long from = 0; from < cores; from++)
            n += ((volatile long *)pgas_at(core, sizes))[from];
        for (long i = 0; i < n; i++) {
            long key = ((volatile long *)pgas_at(core, keys))[i];
            in_order += key >= before;
            checksum += key * ++rank;
            before = key;
        }
    }
    print_field("pgas_is: keys ", rank);
    print_field(" in order ", in_order);
    print_field(" checksum ", checksum);
    print_string("\n");
    return rank != KEYS || in_order != KEYS || checksum != CHECKSUM;
}
