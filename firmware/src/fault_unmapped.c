/* Core 1 (core 0 when alone) writes far beyond the end of memory, in write_beyond_memory. */
#include "fault.h"

#define BEYOND_MEMORY 0x3f00000000UL

static NOINLINE void write_beyond_memory(unsigned long address) { *(volatile long *)address = 1; }

static void take_the_fault(void) { write_beyond_memory(BEYOND_MEMORY); }
