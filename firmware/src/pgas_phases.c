/* What UPC says of the order of accesses: barriers in two phases, and messages of words and a flag, which is
 * written relaxed or strict. Prints how many words were not there after a barrier, and how often the flag overtook a
 * word; exit code 1 when that happened where it must not. */
#include "console.h"
#include "pgas.h"

#define ROUNDS 8
#define WORDS 64 /* of a message: more than a put moves at once */

/* Offsets in a segment: of what is put in phases, and words and flags of messages. */
static unsigned long mark, sent, received, relaxed_word, relaxed_flag, strict_word, strict_flag;

static volatile long *at(long core, unsigned long offset) { return (volatile long *)pgas_at(core, offset); }

/* Each core puts words to the next, says so, works by itself, and only then looks at what it was sent. Then it writes
 * one word there twice, with a put under way, and must find what it wrote last. */
static long phases(long me, long cores) {
    long wrong = 0, work = 0, next = (me + 1) % cores;
    for (long round = 1; round <= ROUNDS; round++) {
        for (long i = 0; i < WORDS; i++)
            at(me, sent)[i] = round * 100 + i;
        pgas_put_nb(at(next, received), at(me, sent), WORDS * 8);
        pgas_notify(me);
        for (long i = 0; i < 20 * (me + 1) + round; i++)
            work += i ^ work << 1;
        pgas_wait(me);
        for (long i = WORDS - 1; i >= 0; i--)
            wrong += pgas_read_relaxed(me, at(me, received) + i) != round * 100 + i;
        pgas_barrier();
        pgas_put_nb(at(next, received), at(me, sent), WORDS * 8);
        pgas_write_relaxed(me, at(next, mark), -round);
        pgas_write_relaxed(me, at(next, mark), round);
        wrong += pgas_read_relaxed(me, at(next, mark)) != round;
        pgas_barrier();
    }
    return wrong + (work == -1);
}

/* Even cores put words and then a flag to the next one, which waits for the flag: were the words there? */
static long messages(long me, long cores, unsigned long word, unsigned long flag, int strict) {
    long overtaken = 0;
    for (long round = 1; round <= ROUNDS; round++) {
        if (me % 2 == 0 && me + 1 < cores) {
            for (long i = 0; i < WORDS; i++)
                at(me, word)[i] = round;
            pgas_put_nb(at(me + 1, word), at(me, word), WORDS * 8);
            if (strict)
                pgas_write_strict(me, at(me + 1, flag), round);
            else
                pgas_write_relaxed(me, at(me + 1, flag), round);
        } else if (me % 2) {
            while (pgas_read_relaxed(me, at(me, flag)) != round)
                cpu_pause();
            long late = 0;
            for (long i = WORDS - 1; i >= 0; i--)
                late |= pgas_read_relaxed(me, at(me, word) + i) != round;
            overtaken += late;
        }
        pgas_barrier();
    }
    return overtaken;
}

int main(long me, long cores) {
    pgas_start(me, cores);
    mark = pgas_all_alloc(me, 8);
    sent = pgas_all_alloc(me, WORDS * 8);
    received = pgas_all_alloc(me, WORDS * 8);
    relaxed_word = pgas_all_alloc(me, WORDS * 8);
    relaxed_flag = pgas_all_alloc(me, 8);
    strict_word = pgas_all_alloc(me, WORDS * 8);
    strict_flag = pgas_all_alloc(me, 8);
    long wrong = pgas_sum(me, phases(me, cores));
    long strict = pgas_sum(me, messages(me, cores, strict_word, strict_flag, 1));
    long relaxed = pgas_sum(me, messages(me, cores, relaxed_word, relaxed_flag, 0));
    if (me != 0)
        return 0;
    print_field("pgas_phases: wrong ", wrong);
    print_field(" strict ", strict);
    print_field(" relaxed ", relaxed);
    print_string("\n");
    return wrong || strict;
}
