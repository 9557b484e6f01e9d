/* Core 0 starts a DMA copy; while it goes on, core 1 rewrites the source from its end, and every other
 * core (core 0 too) reads the destination. Each word of the destination ends as the old or the new word
 * of the source, by the race. Prints how many of each; exit code 1 when a word is neither, or when a
 * reader saw a word that the DMA could not have written. */
#include "barrier.h"
#include "console.h"
#include "machine.h"

#define WORDS 128
#define OLD_WORD(i) (0x1000UL + (unsigned long)(i))
#define NEW_WORD(i) (0x2000UL + (unsigned long)(i))

static struct barrier all_cores;
static volatile unsigned long dma_source[WORDS] LINE_ALIGNED;
static volatile unsigned long dma_destination[WORDS] LINE_ALIGNED;
static volatile long strange_words LINE_ALIGNED;

static NOINLINE void start_dma(void) {
    machine_write(MACHINE_DMA_SRC, (unsigned long)dma_source);
    machine_write(MACHINE_DMA_DST, (unsigned long)dma_destination);
    machine_write(MACHINE_DMA_LEN, sizeof dma_source);
    machine_write(MACHINE_DMA_START, 1);
}

static NOINLINE void rewrite_source(void) {
    for (long i = WORDS - 1; i >= 0; i--) {
        dma_source[i] = NEW_WORD(i);
        busy_work(6);
    }
}

/* Reads the whole destination once; counts words that are not empty, old or new. */
static NOINLINE long read_destination(void) {
    long strange = 0;
    for (long i = 0; i < WORDS; i++) {
        unsigned long word = dma_destination[i];
        strange += word != 0 && word != OLD_WORD(i) && word != NEW_WORD(i);
    }
    return strange;
}

static NOINLINE int report(void) {
    long old_words = 0, new_words = 0, other_words = 0;
    for (long i = 0; i < WORDS; i++) {
        unsigned long word = dma_destination[i];
        old_words += word == OLD_WORD(i);
        new_words += word == NEW_WORD(i);
        other_words += word != OLD_WORD(i) && word != NEW_WORD(i);
    }
    print_field("dma_race: old ", old_words);
    print_field(" new ", new_words);
    print_field(" other ", other_words + strange_words);
    print_string("\n");
    return other_words + strange_words != 0;
}

int main(long core, long cores) {
    if (core == 0)
        for (long i = 0; i < WORDS; i++)
            dma_source[i] = OLD_WORD(i);
    barrier_wait(&all_cores, cores);
    if (core == 0)
        start_dma();
    if (core == 1)
        rewrite_source();
    else
        fetch_add(&strange_words, read_destination());
    if (core == 0)
        while (machine_read(MACHINE_DMA_STATUS) != 0)
            cpu_pause();
    barrier_wait(&all_cores, cores);
    return core == 0 ? report() : 0;
}
