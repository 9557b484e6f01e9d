"""Tables of cuts against Python's own."""

from __future__ import annotations

import random

import numpy as np

from solver.cuts.table import cut_slot, node_slot


def test_cuts_are_found_as_in_a_set() -> None:
    rng, known = random.Random(5), set()
    keys, stamp = np.zeros((256, 3), np.int32), np.full(256, 6, np.int32)
    for _ in range(400):
        cut = np.array([rng.randrange(5) for _ in range(3)], np.int32)
        slot, found = cut_slot(cut, keys, stamp, 7)
        assert found == (tuple(cut.tolist()) in known)
        if found:
            assert (keys[slot] == cut).all()
        else:
            assert stamp[slot] == 6
        stamp[slot], keys[slot] = 7, cut
        known.add(tuple(cut.tolist()))
    assert len(known) > 100


def test_nodes_are_found_as_in_a_dictionary() -> None:
    """Numbers below the least count as empty."""
    rng, known = random.Random(6), dict[tuple[int, ...], int]()
    keys, table, least = np.zeros((400, 3), np.int32), np.zeros(256, np.int32), 100
    keys[:least] = 1
    n = least
    for _ in range(400):
        cut = np.array([rng.randrange(5) for _ in range(3)], np.int32)
        run = rng.randrange(-1, 3)
        reached = tuple(int(x) + (s == run) for s, x in enumerate(cut))
        slot = node_slot(cut, run, keys, table, least)
        assert table[slot] == known.get(reached, 0)
        if reached not in known:
            keys[n], table[slot] = reached, n
            known[reached] = n
            n += 1
    assert len(known) > 100
