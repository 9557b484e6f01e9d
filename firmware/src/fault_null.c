/* Core 1 (core 0 when alone) reads through a null pointer, in read_through_null. */
#include "fault.h"

static long *volatile null_pointer;

static NOINLINE long read_through_null(void) { return null_pointer[2]; }

static void take_the_fault(void) { shared_work = read_through_null(); }
