"""Slices in numbers, emulated in registers: by hand, and against a plain walk over all interleavings."""

from __future__ import annotations

import numpy as np
import pytest
from lightplay_factory import instance, interleavings, is_correct, random_instance

from corebraid.base.compiled import njit
from solver.evidence.lightplay.cuda_batch import (
    BLOCK,
    MOST_CORES,
    POSITION_BYTES,
    columns,
    pack,
    pack_numbers,
)
from solver.evidence.lightplay.cuda_registers import (
    END,
    FINAL,
    INITIAL,
    LEFT,
    emulate_numbered,
    number_values,
)
from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance

_emulate = njit(emulate_numbered)


def correct_ranks(slices: list[Instance]) -> list[list[int]]:
    """Of each slice of a batch the ranks whose interleavings are correct in registers."""
    numbered = [one for k in slices if (one := number_values(k)) is not None]
    assert len(numbered) == len(slices)
    batch = pack_numbers(slices, numbered)
    found = []
    for k, one in enumerate(slices):
        ways = count(one.sizes)
        assert ways == int(batch.ranks[k + 1] - batch.ranks[k])
        arrays = batch.op_ptr, batch.head, batch.part_ptr, batch.parts
        found.append([r for r in range(ways) if _emulate(np.uint64(r), np.uint64(ways), k, *arrays)])
    return found


def test_the_layout_by_hand() -> None:
    # A write of 7 and a swap on place 1 by one core, a read by the other.
    ops = [[(0, GIVES, 0, 7)], [(1, TAKES | GIVES, 3, 4)]], [[(0, TAKES, 7, 0)]]
    numbered = number_values(instance(list(ops), [5, 3], [7, 4]))
    assert numbered is not None
    head = numbered.head
    assert (head[LEFT], head[END], head[INITIAL], head[FINAL]) == (0x0102, 0x0302, 0x0000, 0x0101)
    assert numbered.part_ptr.tolist() == [0, 1, 2, 3]
    write, swap, read = 1 << 16 | GIVES << 24, 8 | 1 << 16 | (TAKES | GIVES) << 24, 1 << 8 | TAKES << 24
    assert numbered.parts.tolist() == [write, swap, read]


def test_registers_find_what_a_plain_walk_finds() -> None:
    slices = [random_instance(seed, ops=3 + seed % 6, cores=2 + seed % 3) for seed in range(60)]
    expected = [
        [rank for rank, order in enumerate(interleavings(one.sizes)) if is_correct(one, order)]
        for one in slices
    ]
    assert 20 < sum(map(bool, expected)) < len(slices)
    assert correct_ranks(slices) == expected


def test_a_word_has_eight_cores_and_eight_places() -> None:
    def wide(n: int, places: int) -> Instance:
        big = 1 << 63
        cores = [[[(k % places, GIVES, 0, big + k)]] for k in range(n)]
        return instance(cores, [0] * places, [big + n - 1 if k == n - 1 else big + k for k in range(places)])

    found = correct_ranks([wide(8, 8)])[0]
    assert len(found) == count([1] * 8)
    assert number_values(wide(9, 8)) is None
    assert number_values(wide(9, 9)) is None


@pytest.mark.parametrize(("values", "fits"), [(254, True), (255, False)])
def test_values_of_a_place_are_numbered_as_far_as_a_byte_goes(values: int, fits: bool) -> None:
    # And one value at the beginning; 255 operations at most.
    writes = [[(0, GIVES, 0, 1000 + k)] for k in range(values - 1)]
    last = [[(0, GIVES, 0, 999), (1, GIVES, 0, 5)]]
    problem = instance([writes + last], [0, 0], [999, 5])
    assert (number_values(problem) is not None) == fits


def test_threads_of_a_block_share_no_byte_of_shared_memory() -> None:
    block = np.zeros(POSITION_BYTES // 8 + 5 * BLOCK, np.uint64)
    mine = [columns(block.view(np.int16), block, lane) for lane in range(BLOCK)]
    assert {(len(at), len(memory)) for at, memory in mine} == {(MOST_CORES, 5)}
    for lane, (at, memory) in enumerate(mine):
        at[:], memory[:] = lane, 1000 + lane
    for lane, (at, memory) in enumerate(mine):
        assert set(at.tolist()) == {lane}
        assert set(memory.tolist()) == {1000 + lane}
    # Neighbouring threads have neighbouring words: no two of a warp wait for a bank.
    assert mine[1][1].ctypes.data - mine[0][1].ctypes.data == 8


def test_shared_memory_of_a_block() -> None:
    batch = pack([random_instance(seed, ops=5) for seed in range(6)])
    places = max(len(random_instance(seed, ops=5).initial) for seed in range(6))
    assert batch.shared_bytes == POSITION_BYTES + 8 * BLOCK * places <= 20 << 10
