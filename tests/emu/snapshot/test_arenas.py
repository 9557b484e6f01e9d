"""Large memory that is put back."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from emu.snapshot import arenas
from emu.snapshot.arenas import SavedArena

_PAGES = 3000


def touched(draw: random.Random, memory: np.ndarray, n: int) -> None:
    for _ in range(n):
        memory[draw.randrange(len(memory))] = draw.randrange(256)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scan", ["ioctl", "entries"])
def test_memory_is_as_it_was(seed: int, scan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if scan == "entries":
        monkeypatch.setattr(arenas, "_scanned", arenas._read)
    draw = random.Random(seed)
    memory = host_memory(_PAGES * PAGE_BYTES - draw.choice((0, 5)))
    touched(draw, memory, 200)
    arena, then = SavedArena(memory.base), memory.copy()
    for _ in range(3):
        touched(draw, memory, 200)
        assert not np.array_equal(memory, then)
        arena.restore()
        assert np.array_equal(memory, then)
    place, more = draw.randrange(_PAGES - 1) * PAGE_BYTES, np.arange(77, dtype=np.uint8)
    arena.keep(place, more)
    then[place : place + 77] = more
    touched(draw, memory, 200)
    arena.restore()
    assert np.array_equal(memory, then)


def test_both_scans_find_the_same() -> None:
    draw = random.Random(1)
    memory = host_memory(1 << 34)
    touched(draw, memory, 300)
    address = int(memory.ctypes.data)
    entries = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        read = set(arenas._read(entries, address, len(memory)))
    finally:
        os.close(entries)
    # By ioctl(2), where the host has it.
    assert read == set(arenas._runs(address, len(memory)))
    assert len(read) > 200


def test_more_runs_of_pages_than_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "_REGIONS", 7)
    monkeypatch.setattr(arenas, "_AT_ONCE", 64)
    memory = host_memory(400 * PAGE_BYTES)
    memory[:: 2 * PAGE_BYTES] = 9
    arena, then = SavedArena(memory.base), memory.copy()
    memory[:] = 1
    arena.restore()
    assert np.array_equal(memory, then)
