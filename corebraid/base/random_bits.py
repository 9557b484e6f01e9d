"""The generator behind devices: splitmix64."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN


@njit(cache=True)
def next_random(state):
    """splitmix64 (Steele, Lea, Flood 2014): returns (next state, 64 random bits)."""
    state += GOLDEN
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))
