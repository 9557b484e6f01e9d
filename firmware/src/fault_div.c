/* Core 1 (core 0 when alone) divides by zero, in divide_by_zero. */
#include "fault.h"

static volatile long zero_divisor;

static NOINLINE long divide_by_zero(long dividend) { return dividend / zero_divisor; }

static void take_the_fault(void) { shared_work = divide_by_zero(shared_work); }
