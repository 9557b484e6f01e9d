/* Core 1 (core 0 when alone) meets an illegal instruction, in run_illegal_instruction. */
#include "fault.h"

static NOINLINE void run_illegal_instruction(void) { __asm__ volatile("ud2"); }

static void take_the_fault(void) { run_illegal_instruction(); }
