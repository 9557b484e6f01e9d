/* Random updates of a table that is spread over all cores (guppie of the UPC test suite): each core changes words
 * anywhere by exclusive or. Every fourth update is a get and a put under the lock of the word's core, the others
 * are one atomic instruction under it. The same updates again restore the table, which is what is checked.
 * Prints the words that are wrong; exit code 1 when some are. */
#include "console.h"
#include "hash.h"
#include "pgas.h"

#define WORDS_EACH 64
#define UPDATES 48

static unsigned long table, locks;

static void update(long where, long cores, long change, int by_put) {
    long core = where % cores;
    volatile long *word = (volatile long *)pgas_at(core, table) + where / cores % WORDS_EACH;
    pgas_lock *lock = pgas_at(core, locks);
    pgas_acquire(lock);
    if (by_put)
        pgas_put_word(word, pgas_get_word(word) ^ change);
    else
        pgas_write(word, pgas_read(word) ^ change);
    pgas_release(lock);
}

int main(long me, long cores) {
    pgas_start(me, cores);
    table = pgas_all_alloc(me, WORDS_EACH * sizeof(long));
    locks = pgas_all_alloc(me, sizeof(pgas_lock));
    volatile long *mine = pgas_at(me, table);
    for (long i = 0; i < WORDS_EACH; i++)
        mine[i] = me * WORDS_EACH + i;
    pgas_barrier();
    for (long pass = 0; pass < 2; pass++) {
        for (long i = 0; i < UPDATES; i++) {
            unsigned long random = hash_mix((unsigned long)me, (unsigned long)i);
            update((long)(random >> 40), cores, (long)random, i % 4 == 0);
        }
        pgas_barrier();
    }
    long wrong = 0;
    for (long i = 0; i < WORDS_EACH; i++)
        wrong += mine[i] != me * WORDS_EACH + i;
    wrong = pgas_sum(me, wrong);
    if (me != 0)
        return 0;
    print_field("pgas_guppie: words ", WORDS_EACH * cores);
    print_field(" wrong ", wrong);
    print_string("\n");
    return wrong != 0;
}
