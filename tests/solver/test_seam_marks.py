"""Which touched bytes of a large memory differ from its final image, against numpy over all of it."""

from __future__ import annotations

import numpy as np
import pytest
from engine_suite import SOAK

from corebraid.base.errors import OrderError
from solver.check.seams import NEAR, Seam, Seams, first_difference


def test_the_first_difference_is_found_wherever_it_lies() -> None:
    found = 0
    for seed in range(20 * SOAK):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 4)) * NEAR + int(rng.integers(1, 4)) * 2048
        state, final = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        loaded, near = np.zeros(-(-size // 4096), np.uint8), np.zeros(-(-size // NEAR), np.uint8)
        marks = np.zeros(size // 8, np.uint8)
        touched = rng.integers(0, size // 8 * 8, 6)
        borders = np.array([NEAR - 1, NEAR, size // 8 * 8 - 1])
        for a in np.concatenate([touched, borders]).tolist():
            marks[a >> 3] |= np.uint8(1 << (a & 7))
            loaded[a // 4096] = near[a // NEAR] = 1
        final[rng.choice(np.concatenate([touched, borders]), rng.integers(0, 3))] = 1
        final[rng.integers(0, size, 3)] = 1
        differ = np.flatnonzero(
            np.unpackbits(marks, bitorder="little")[: len(final)].astype(bool)[: size // 8 * 8]
            & (state != final)[: size // 8 * 8]
        )
        expected = int(differ[0]) if len(differ) else -1
        assert first_difference(state, loaded, marks, near, final) == expected, f"seed {seed}"
        found += expected >= 0
    assert found > 5


def test_words_on_both_sides_of_a_border_are_compared_at_the_end() -> None:
    for word in (NEAR // 8 - 1, NEAR // 8, 3 * NEAR // 8 - 1):
        for by_seam in (True, False):
            seams = Seams(np.zeros(3 * NEAR, np.uint8))
            one, all_bits = np.array([word], np.uint64), np.array([255], np.uint8)
            if by_seam:
                seams.cross(Seam(0, 1, one, all_bits, np.zeros(1, np.uint64), np.ones(1, np.uint64)))
            else:
                seams.pass_over(one * np.uint64(8), np.ones(1, np.uint8))
            final = np.zeros(3 * NEAR, np.uint8)
            final[8 * word] = 1
            seams.finish(final)
            final[8 * word] = 2
            with pytest.raises(OrderError):
                seams.finish(final)
