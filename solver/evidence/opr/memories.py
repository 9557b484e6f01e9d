"""Memories of a partial replay (OPR, Algorithm 4), as kernels: what a member has written and when (W_sm),
and what is compared with it. What a member knows, and the shared memory of the group, are
`recorder.evidence.opr.shadow.Shadow`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.hash_table import Table, find, find_or_insert, grow, has_room, new_table
from recorder.evidence.opr.shadow import BLOCK_BYTES, known_byte, learn

_BLOCK_SHIFT, _BLOCK_MASK = np.uint64(6), np.uint64(BLOCK_BYTES - 1)
_EIGHT, _BYTE = np.uint64(8), np.uint64(0xFF)
_FIRST_BLOCKS = 1 << 6


class Written(NamedTuple):
    """What a member has written last. content: uint8[blocks, 64]. sn: int64[blocks, 64], which access of the
    member wrote each byte, 0 for none, negative for one that started a put."""

    table: Table
    content: NDArray[np.uint8]
    sn: NDArray[np.int64]


def new_written() -> Written:
    """A member that has written nothing."""
    n = _FIRST_BLOCKS
    return Written(
        new_table(2 * n), np.zeros((n, BLOCK_BYTES), np.uint8), np.zeros((n, BLOCK_BYTES), np.int64)
    )


def grow_written(written: Written, more: int) -> Written:
    """The same, with room for `more` blocks beyond those that are there."""
    old = len(written.sn)
    n = max(2 * old, int(written.table.used[0]) + more)
    content, sn = np.zeros((n, BLOCK_BYTES), np.uint8), np.zeros((n, BLOCK_BYTES), np.int64)
    content[:old], sn[:old] = written.content, written.sn
    return Written(grow(written.table, n), content, sn)


@njit(cache=True)
def room_for(memory, blocks):  # type: ignore[no-untyped-def]
    """Whether a Written or Shadow has room for so many more blocks."""
    return has_room(memory.table, blocks) and memory.table.used[0] + blocks <= memory[1].shape[0]


@njit(cache=True)
def note_written(written, address, size, value, sn):  # type: ignore[no-untyped-def]
    """Access `sn` (int64; negative: a put) of the member writes `value` at [address, address + size), size
    1 to 8."""
    for k in range(size):
        at = address + np.uint64(k)
        slot, place = find_or_insert(written.table, at >> _BLOCK_SHIFT), np.int64(at & _BLOCK_MASK)
        written.content[slot, place] = np.uint8((value >> (_EIGHT * np.uint64(k))) & _BYTE)
        written.sn[slot, place] = sn


@njit(cache=True)
def put_written(written, view, shared, initial, local, remote, size, sn):  # type: ignore[no-untyped-def]
    """A put: what the member knows at `local` is written to `remote`. Of bytes that it never accessed it
    knows what the program's image has there (initial: uint8[memory])."""
    for k in range(np.int64(size)):
        source = local + np.uint64(k)
        known = known_byte(view, source)
        value = np.uint64(known if known >= 0 else np.int64(initial[np.int64(source)]))
        note_written(written, remote + np.uint64(k), 1, value, -sn)
        learn(shared, remote + np.uint64(k), 1, value)


@njit(cache=True)
def match_written(written, address, size, value):  # type: ignore[no-untyped-def]
    """CheckComm: the access that last wrote any of the bytes, if the member has written all of them and they
    are `value`, as in `Written`; else 0."""
    latest = np.int64(0)
    for k in range(size):
        at = address + np.uint64(k)
        slot, place = find(written.table, at >> _BLOCK_SHIFT), np.int64(at & _BLOCK_MASK)
        if slot < 0 or written.sn[slot, place] == 0:
            return np.int64(0)
        if np.uint64(written.content[slot, place]) != (value >> (_EIGHT * np.uint64(k))) & _BYTE:
            return np.int64(0)
        if abs(written.sn[slot, place]) > abs(latest):
            latest = written.sn[slot, place]
    return latest


@njit(cache=True)
def differs(shared, address, size, value):  # type: ignore[no-untyped-def]
    """Whether the group's shared memory holds other bytes than `value` at [address, address + size); bytes
    that it does not know are no difference."""
    for k in range(size):
        known = known_byte(shared, address + np.uint64(k))
        if known >= 0 and np.uint64(known) != (value >> (_EIGHT * np.uint64(k))) & _BYTE:
            return True
    return False
