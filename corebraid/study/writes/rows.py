"""Accesses to some bytes, as rows of a trace.

A write is a store, whatever was there before, and a read-modify-write that changed something; one that left
the bytes as they were, as a compare-and-swap that failed, counts as a read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import ALONE, FETCH, RMW, UNCACHED, WRITE
from corebraid.names.selection import AddressRange, touches

Rows = NDArray[np.void]


class Access(NamedTuple):
    """One access. row: an EVENT. number: by which its event is called (`EventNumbers`). at: how many rows
    come before it in the order. has_order: whether its region has one."""

    row: np.void
    number: int
    at: int
    has_order: bool

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Of the same access in any trace: stream, count, number, address."""
        return int(self.row["core"]), int(self.row["count"]), self.number, int(self.row["addr"])

    @property
    def first(self) -> int:
        """The address of its first byte."""
        return int(self.row["addr"])

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.first + int(self.row["size"])

    def value(self, name: str, low: int, high: int) -> bytes:
        """What it found ("old") or left ("new") at the addresses from `low` up to (not) `high`, which are
        among its bytes."""
        whole = int(self.row[name]).to_bytes(8, "little")
        return whole[low - self.first : high - self.first]


def of_memory(rows: Rows, span: AddressRange) -> NDArray[np.bool_]:
    """Which rows (EVENT[n]) access the memory of some bytes, fetches and device registers left out:
    bool[n]."""
    apart = np.uint8(UNCACHED | FETCH)
    found: NDArray[np.bool_] = touches(rows, span) & ((rows["flags"] & apart) == 0)
    return found


def are_writes(rows: Rows) -> NDArray[np.bool_]:
    """Which rows (EVENT[n]) are writes: bool[n]."""
    changed = (rows["kind"] == RMW) & (rows["old"] != rows["new"])
    found: NDArray[np.bool_] = (rows["kind"] == WRITE) | changed
    return found & ((rows["flags"] & np.uint8(ALONE)) == 0)
