"""Which bytes processors share, and the rows of a region that touch such bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import FETCH, READ, UNCACHED, WRITE
from solver.regions.image import zeros
from solver.regions.region import Region
from solver.regions.traces import Events, Traces

#: Marks of a byte: the processor that accessed it (its number, from 1), or _SEVERAL; it was written.
_PROCESSOR, _SEVERAL, _WRITTEN = np.uint16(0x1FF), np.uint16(0x1FF), np.uint16(0x200)
_SHARED = _SEVERAL | _WRITTEN
#: What a row does to memory.
READS, WRITES = np.uint8(1), np.uint8(2)
#: The number of a write (`processor_and_event`): its row's number in program order above its processor; 0 for
#: memory as it began.
_PROCESSOR_BITS = 8


@njit(cache=True, nogil=True)
def mark_rows(rows, processor, marks):  # type: ignore[no-untyped-def]
    """Note which bytes the rows (EVENT[n]) of a processor (0 to 253) touch. marks: uint16[memory]."""
    me = np.uint16(processor + 1)
    for i in range(rows.size):
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        first = np.int64(row.addr)
        for a in range(first, first + np.int64(row.size)):
            before = marks[a] & _PROCESSOR
            if before != me:
                marks[a] |= me if before == 0 else _SEVERAL
            if row.kind != READ:
                marks[a] |= _WRITTEN


def shared_bytes(traces: Traces) -> NDArray[np.uint16]:
    """Marks of every byte (uint16[memory]), by one pass over the traces; those of a byte are _SHARED if
    several processors accessed it and one of them wrote to it. Its pages cost nothing unless touched."""
    marks = zeros(2 * traces.memory_bytes).view(np.uint16)
    for processor in range(traces.n_streams - traces.buffered):
        for rows in traces.program_order(processor):
            mark_rows(rows, processor, marks)
    return marks


class Accesses(NamedTuple):
    """The rows of a region that touch shared bytes, stream after stream, in the order of each stream.

    begin: int64 (n_streams + 1,), where each stream's begin. address: uint64 (n,). size, does: uint8 (n,),
    bytes, and READS, WRITES or both. changes: uint8 (n,), bit b set if byte b is another afterwards.
    processor: uint8 (n,). number: uint64 (n,), as a source of reads. instruction: uint64 (n,), instruction
    count. place: int64 (n,), the row's number in its stream, from the region's first on. fetched: uint8 (n,),
    whether it is the fetch of an instruction. Under TSO a core's stores that commit in a later region follow
    those of this one, from `placed` (int64 (n_streams,)) on.
    """

    begin: NDArray[np.int64]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    does: NDArray[np.uint8]
    changes: NDArray[np.uint8]
    processor: NDArray[np.uint8]
    number: NDArray[np.uint64]
    instruction: NDArray[np.uint64]
    place: NDArray[np.int64]
    fetched: NDArray[np.uint8]
    placed: NDArray[np.int64]


@njit(cache=True, nogil=True)
def pick_rows(rows, first, processor, marks, out, n):  # type: ignore[no-untyped-def]
    """Append the rows that touch a shared byte to `out`, of which n are filled. first: number of rows before
    these. out: columns as of `Accesses`, from the address on. Returns how many are filled then."""
    address, size, does, changes, who, number, count, place, fetched = out
    for i in range(rows.size):
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        start = np.int64(row.addr)
        shared = False
        for a in range(start, start + np.int64(row.size)):
            shared = shared or marks[a] & _SHARED == _SHARED
        if not shared:
            continue
        address[n], size[n] = row.addr, row.size
        does[n] = READS if row.kind == READ else WRITES if row.kind == WRITE else READS | WRITES
        changes[n] = 0
        for b in range(np.int64(row.size)):
            if ((row.old ^ row.new) >> np.uint64(8 * b)) & np.uint64(0xFF):
                changes[n] |= np.uint8(1 << b)
        who[n] = processor
        number[n] = ((row.seq + np.uint64(1)) << np.uint64(_PROCESSOR_BITS)) | np.uint64(processor)
        count[n], place[n] = row.count, first + i
        fetched[n] = (row.flags & FETCH) != 0
        n += 1
    return n


_COLUMNS = (np.uint64, np.uint8, np.uint8, np.uint8, np.uint8, np.uint64, np.uint64, np.int64, np.uint8)


def accesses_of(region: Region, n_streams: int, buffered: int, marks: NDArray[np.uint16]) -> Accesses:
    """The accesses of a region to shared bytes. marks: those of `shared_bytes`."""
    parts: list[tuple[NDArray[np.generic], ...]] = []
    begin, placed = np.zeros(n_streams + 1, np.int64), np.zeros(n_streams, np.int64)

    def add(rows: Events, first: int, processor: int) -> int:
        out = tuple(np.empty(len(rows), kind) for kind in _COLUMNS)
        n = int(pick_rows(rows, first, processor, marks, out, 0))
        parts.append(tuple(column[:n].copy() for column in out))
        return n

    for stream in range(n_streams):
        core = stream - (n_streams - buffered)
        processor, n, first = core if core >= 0 else stream, 0, 0
        for rows in region.streams[stream].pieces():
            n += add(rows, first, processor)
            first += len(rows)
        placed[stream] = begin[stream] + n
        if core >= 0 and region.tails:
            n += add(region.tails[core], first, processor)
        begin[stream + 1] = begin[stream] + n
    columns: list[Any] = [
        np.concatenate([np.empty(0, kind), *(part[k] for part in parts)]) for k, kind in enumerate(_COLUMNS)
    ]
    address, size, does, changes, who, number, count, place, fetched = columns
    return Accesses(begin, address, size, does, changes, who, number, count, place, fetched, placed)


def processor_and_event(number: int) -> tuple[int, int]:
    """Whose write a number other than 0 is: the processor, and the row's number in its program order."""
    return number & ((1 << _PROCESSOR_BITS) - 1), (number >> _PROCESSOR_BITS) - 1
