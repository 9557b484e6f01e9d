"""Slices packed together for a GPU, and where a thread keeps what it emulates.

Two layouts. `REGISTERS` (cuda_registers.py) takes slices of up to 8 cores and 8 places. What has more is
`SHARED`: emulated memory and positions are in the block's shared memory, laid out so that neighbouring
threads have neighbouring words and none waits for another's bank:

- int16 (MOST_CORES, BLOCK) from byte 0 on: the next operation of each core, a column for each thread;
- uint64 (places, BLOCK) from byte POSITION_BYTES on: emulated memory, a column for each thread. As many
  places as the largest slice of the batch has; the launch says how many bytes that is.

A block never takes more than 20 KiB of the 48 that every device has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.evidence.lightplay.cuda_registers import Numbered
from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.slice_problem import Instance

#: Threads in a block, the paper's.
BLOCK = 32
#: Cores and places of a slice that a thread has room for.
MOST_CORES, MOST_PLACES = 64, 64
#: Bytes of a block's shared memory that hold positions.
POSITION_BYTES = 2 * MOST_CORES * BLOCK
REGISTERS, SHARED = "registers", "shared"


def columns(positions, words, lane):  # type: ignore[no-untyped-def]
    """A thread's own part of the block's shared memory, of which `positions` (int16) and `words` (uint64) are
    views: (the next operation of each core, emulated memory)."""
    return positions[lane : POSITION_BYTES // 2 : BLOCK], words[POSITION_BYTES // 8 + lane :: BLOCK]


@dataclass(frozen=True)
class Packed:
    """Slices in a batch, one after the other. ptr: int64 (4, n + 1), where each slice's cores, operations,
    parts and places begin; the pointers of cores and operations have one entry more a slice. ranks: uint64
    (n + 1,), where its interleavings begin among all. Others: as in `Instance`."""

    ptr: NDArray[np.int64]
    ranks: NDArray[np.uint64]
    core_ptr: NDArray[np.int64]
    part_ptr: NDArray[np.int64]
    place: NDArray[np.int32]
    how: NDArray[np.uint8]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    initial: NDArray[np.uint64]
    final: NDArray[np.uint64]
    layout = SHARED

    def arrays(self) -> list[NDArray[Any]]:
        """In the order in which the kernel takes them."""
        names = (
            "ptr",
            "ranks",
            "core_ptr",
            "part_ptr",
            "place",
            "how",
            "before",
            "after",
            "initial",
            "final",
        )
        return [getattr(self, name) for name in names]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return POSITION_BYTES + 8 * BLOCK * int(np.diff(self.ptr[3]).max())


@dataclass(frozen=True)
class PackedNumbers:
    """Slices in numbers in a batch. ranks: as of `Packed`. op_ptr: int32 (n + 1,), where each slice's
    operations begin. head: uint64 (n, 4). part_ptr: int32 (operations + 1,). parts: uint32."""

    ranks: NDArray[np.uint64]
    op_ptr: NDArray[np.int32]
    head: NDArray[np.uint64]
    part_ptr: NDArray[np.int32]
    parts: NDArray[np.uint32]
    layout = REGISTERS
    shared_bytes = 0

    def arrays(self) -> list[NDArray[Any]]:
        """In the order in which the kernel takes them."""
        return [self.ranks, self.op_ptr, self.head, self.part_ptr, self.parts]


def _ranks(instances: list[Instance]) -> NDArray[np.uint64]:
    return np.array([0, *np.cumsum([count(i.sizes) for i in instances])], np.uint64)


def pack(instances: list[Instance]) -> Packed:
    """A batch of slices, at least one."""
    sizes = np.array(
        [(len(i.core_ptr), len(i.part_ptr), len(i.place), len(i.initial)) for i in instances], np.int64
    )
    ptr = np.concatenate([np.zeros((1, 4), np.int64), np.cumsum(sizes, axis=0)]).T
    columns = [np.concatenate([getattr(i, name) for i in instances]) for name in Instance._fields]
    return Packed(np.ascontiguousarray(ptr), _ranks(instances), *columns)


def pack_numbers(instances: list[Instance], numbered: list[Numbered]) -> PackedNumbers:
    """A batch of slices, at least one. numbered: the same ones in numbers."""
    ops = np.cumsum([0, *(len(one.part_ptr) - 1 for one in numbered)]).astype(np.int32)
    sizes = np.concatenate([np.diff(one.part_ptr) for one in numbered])
    return PackedNumbers(
        _ranks(instances),
        ops,
        np.stack([one.head for one in numbered]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        np.concatenate([one.parts for one in numbered]),
    )
