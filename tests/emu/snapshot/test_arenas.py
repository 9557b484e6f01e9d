"""Large memory that is put back."""

from __future__ import annotations

import errno
import os
import random

import numpy as np
import pytest

from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from emu.snapshot import arenas, pagemap
from emu.snapshot.arenas import Arenas

_PAGES = 3000


def touched(draw: random.Random, memory: np.ndarray, n: int) -> None:
    for _ in range(n):
        memory[draw.randrange(len(memory))] = draw.randrange(256)


def refused(*_: object) -> tuple[int, int]:
    """A host without the ioctl(2)."""
    raise OSError(errno.ENOTTY, "no such request")


#: How memory is put back: pages written over, or thrown away since they are many, or lie apart, or since the
#: host cannot tell which they are.
WAYS = {
    "few": (arenas, "_MOST_PAGES", _PAGES),
    "many": (arenas, "_MOST_PAGES", 100),
    "apart": (arenas, "_MOST_RUNS", 100),
    "unknown": (pagemap, "_ask", refused),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", WAYS)
def test_memory_is_as_it_was(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WAYS[way])
    draw = random.Random(seed)
    sizes = [_PAGES * PAGE_BYTES - draw.choice((0, 5)), 7 * PAGE_BYTES, 100 * PAGE_BYTES]
    memories = [host_memory(size) for size in sizes]
    for one in memories:
        touched(draw, one, 100)
    saved, then = Arenas(one.base for one in memories), [one.copy() for one in memories]

    def check() -> None:
        for one in memories:
            touched(draw, one, 100)
        assert not any(np.array_equal(one, was) for one, was in zip(memories, then, strict=True))
        saved.restore()
        for one, was in zip(memories, then, strict=True):
            assert np.array_equal(one, was)

    for _ in range(3):
        check()
    which, more = draw.randrange(3), np.arange(77, dtype=np.uint8)
    place = draw.randrange(sizes[which] // PAGE_BYTES - 1) * PAGE_BYTES
    saved.keep(memories[which][place:], more)
    then[which][place : place + 77] = more
    assert np.array_equal(memories[which], then[which])
    check()
    saved.close()


def test_what_is_kept_lies_in_an_arena() -> None:
    memory, other = host_memory(3 * PAGE_BYTES), host_memory(3 * PAGE_BYTES)
    saved = Arenas([memory.base])
    with pytest.raises(ValueError, match="no arena has"):
        saved.keep(other, np.ones(5, np.uint8))


@pytest.mark.parametrize("seed", range(8))
def test_the_kernel_writes_what_its_twin_does(seed: int) -> None:
    draw = np.random.default_rng(seed)
    memory, source = draw.integers(0, 1 << 60, (2, 600), np.uint64)
    base, start = int(memory.ctypes.data), int(source.ctypes.data)
    borders = np.sort(draw.choice(600, 10, replace=False)).reshape(-1, 2)
    places = np.sort(draw.choice(600, 6, replace=False)).reshape(-1, 2)
    expected = memory.copy()
    for first, end in borders.tolist():
        for low, high in places.tolist():
            for word in range(max(first, low), min(end, high)):
                expected[word] = source[word - low]
    runs = np.uint64(base) + np.uint64(8) * borders.astype(np.uint64)
    rows = [(base + 8 * low, base + 8 * high, start) for low, high in places.tolist()]
    arenas.write_over(runs, np.array(rows, np.uint64))
    assert np.array_equal(memory, expected)


def test_only_what_was_written_is_written_over() -> None:
    """What was read alone, or never touched, is a page of the file."""
    memory = host_memory(1000 * PAGE_BYTES)
    memory[::PAGE_BYTES] = 1
    saved = Arenas([memory.base])
    assert memory[5 * PAGE_BYTES] == 1
    memory[7 * PAGE_BYTES + 9] = memory[8 * PAGE_BYTES] = memory[300 * PAGE_BYTES] = 5
    written = saved._written()
    if written is None:
        pytest.skip("this host's kernel has no PAGEMAP_SCAN (Linux 6.7)")
    pages = (written[:, :2] - np.uint64(memory.ctypes.data)) // np.uint64(PAGE_BYTES)
    assert pages.tolist() == [[7, 9], [300, 301]]


def test_both_scans_find_the_same() -> None:
    draw = random.Random(1)
    memory = host_memory(1 << 34)
    touched(draw, memory, 300)
    address = int(memory.ctypes.data)
    with pagemap.entries() as opened:
        read = set(pagemap._read(opened, address, len(memory)))
    # By ioctl(2), where the host has it.
    assert read == set(pagemap.runs_there(address, len(memory)))
    assert len(read) > 200


def test_more_runs_of_pages_than_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagemap, "_REGIONS", 7)
    monkeypatch.setattr(pagemap, "_AT_ONCE", 64)
    memory = host_memory(400 * PAGE_BYTES)
    memory[:: 2 * PAGE_BYTES] = 9
    saved, then = Arenas([memory.base]), memory.copy()
    memory[:] = 1
    saved.restore()
    assert np.array_equal(memory, then)


def test_a_process_that_was_forked_puts_back_its_own() -> None:
    memory = host_memory(400 * PAGE_BYTES)
    memory[:: 2 * PAGE_BYTES] = 9
    saved, then = Arenas([memory.base]), memory.copy()
    if (child := os.fork()) == 0:
        memory[:] = 1
        saved.restore()
        os._exit(0 if np.array_equal(memory, then) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_copies_are_looked_for_where_there_was_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: nobody counts faults."""
    memory, looked = host_memory(400 * PAGE_BYTES), list[int]()
    memory[::PAGE_BYTES] = 1
    saved, then, copies = Arenas([memory.base]), memory.copy(), pagemap.copies
    monkeypatch.setattr(arenas, "copies", lambda *asked: looked.append(1) or copies(*asked))

    def put_back(*pages: int) -> bool:
        for page in pages:
            memory[page * PAGE_BYTES + 5] = 9
        saved.restore()
        return np.array_equal(memory, then)

    assert put_back(3, 4)
    looked.clear()
    assert all(put_back(3, 4) for _ in range(50))
    assert len(looked) < 40
    assert put_back(3, 200)
    if saved._written() is None:
        pytest.skip("this host's kernel has no PAGEMAP_SCAN (Linux 6.7)")
    monkeypatch.setattr(arenas, "_faults", lambda: 7)
    put_back(3)
    assert not put_back(300)
