"""Losses (stand-in)."""

import numpy as np

LOSS = np.dtype([("count", "<u8"), ("line", "<u8"), ("stratum", "<u4"), ("way", "u1")])
LOST, DOWNGRADED, INSIDE = 1, 2, 4
