"""Slices packed together for a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.slice_problem import Instance

#: Cores and places of a slice that a thread has room for.
MOST_CORES, MOST_PLACES = 64, 64


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


def pack(instances: list[Instance]) -> Packed:
    """A batch of slices, at least one."""
    sizes = np.array(
        [(len(i.core_ptr), len(i.part_ptr), len(i.place), len(i.initial)) for i in instances], np.int64
    )
    ptr = np.concatenate([np.zeros((1, 4), np.int64), np.cumsum(sizes, axis=0)]).T
    ranks = np.array([0, *np.cumsum([count(i.sizes) for i in instances])], np.uint64)
    columns = [np.concatenate([getattr(i, name) for i in instances]) for name in Instance._fields]
    return Packed(np.ascontiguousarray(ptr), ranks, *columns)
