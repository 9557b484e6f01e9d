"""SSE and what came with it: arithmetic, comparisons, conversions, strings, MXCSR."""
