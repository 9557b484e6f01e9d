"""2**64 over the golden ratio: multiples of it spread evenly over all 64-bit numbers.

Source: Knuth, The Art of Computer Programming, vol. 3, section 6.4 (Fibonacci hashing)."""

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
