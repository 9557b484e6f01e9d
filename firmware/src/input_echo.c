/* Reads standard input to its end and prints it in upper case. Core 0 does the input and output, a
 * block at a time; all cores convert the block, each its share. */
#include "barrier.h"
#include "machine.h"

#define BLOCK_BYTES 64

static struct barrier all_cores;
static volatile unsigned char text_block[BLOCK_BYTES] LINE_ALIGNED;
static volatile long block_length LINE_ALIGNED;

static NOINLINE void read_block(void) {
    long length = 0;
    while (length < BLOCK_BYTES) {
        unsigned long byte = machine_read(MACHINE_CONSOLE_RX);
        if (byte == ~0UL)
            break;
        text_block[length++] = (unsigned char)byte;
    }
    block_length = length;
}

static NOINLINE void convert_share(long core, long cores) {
    for (long i = core; i < block_length; i += cores)
        if (text_block[i] >= 'a' && text_block[i] <= 'z')
            text_block[i] = (unsigned char)(text_block[i] - 'a' + 'A');
}

static NOINLINE void print_block(void) {
    for (long i = 0; i < block_length; i++)
        machine_write(MACHINE_CONSOLE_TX, text_block[i]);
}

int main(long core, long cores) {
    long more;
    do {
        if (core == 0)
            read_block();
        barrier_wait(&all_cores, cores);
        convert_share(core, cores);
        more = block_length == BLOCK_BYTES; /* read before core 0 may fill the next block */
        barrier_wait(&all_cores, cores);
        if (core == 0)
            print_block();
    } while (more);
    return 0;
}
