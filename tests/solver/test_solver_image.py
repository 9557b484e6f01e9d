"""Flat memory and the counting of values, against dictionaries."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solver.regions.image import FlatMemory
from solver.regions.problem import Problem
from solver.sifting.boundary import net_values

_BYTES = 3 * 4096


@pytest.mark.parametrize("seed", range(4))
def test_values_of_every_size_and_place(seed: int) -> None:
    rng = random.Random(seed)
    image = np.frombuffer(rng.randbytes(_BYTES - rng.randrange(8)), np.uint8)
    memory, held = FlatMemory(image), dict(enumerate(image.tolist()))
    for _ in range(40):
        size = [rng.randrange(1, 9) for _ in range(50)]
        address = [rng.randrange(len(image) - n) for n in size]
        loaded = memory.load(np.array(address, np.uint64), np.array(size, np.uint8))
        for at, n, value in zip(address, size, loaded.tolist(), strict=True):
            assert value == int.from_bytes(bytes(held[at + b] for b in range(n)), "little")
        value = [rng.getrandbits(64) for _ in size]
        memory.store(np.array(address, np.uint64), np.array(size, np.uint8), np.array(value, np.uint64))
        for at, n, stored in zip(address, size, value, strict=True):
            held |= {at + b: (stored >> (8 * b)) & 0xFF for b in range(n)}


@pytest.mark.parametrize("granules", [1, 7, 5000])
def test_what_is_left_of_old_and_new_values(granules: int) -> None:
    """Chains of few values: those of all granules are the same, as those of flags are."""
    rng = random.Random(granules)
    granule, old, new, ends = [], [], [], []
    for g in range(granules):
        value = first = rng.randrange(3)
        for _ in range(rng.randrange(5)):
            to = rng.randrange(3)
            granule.append(g)
            old.append(value)
            new.append(to)
            value = to
        ends.append((first, value))
    shuffled = list(zip(granule, old, new, strict=True))
    rng.shuffle(shuffled)
    n, columns = len(shuffled), np.array(shuffled or np.empty((0, 3)), np.uint64).T
    problem = Problem(
        0, np.array([n]), np.array([0, n]), np.arange(1, n + 1), np.arange(n + 1),
        columns[0].astype(np.int32), columns[1].copy(), columns[2].copy(),
        np.arange(granules).astype(np.uint64),
        np.ones(granules, np.uint8), np.zeros(granules, np.uint64), np.zeros(granules, np.uint64),
    )  # fmt: skip
    net = net_values(problem)
    for g, (first, last) in enumerate(ends):
        assert net.changes[g] == (first != last)
        if first != last:
            assert (net.initial[g], net.final[g]) == (first, last)
