"""Which write each read of a member found, as far as the evidence says: its own, that of another member
which was inferred, or one from outside the group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.hash_table import Table, find_or_insert, grow, has_room, new_table
from corebraid.base.kernels import inner
from corebraid.base.rows.event import READ, UNCACHED, WRITE
from recorder.evidence.opr.log import OprLog
from recorder.files.reader import Recording
from recorder.replay.member import MemberReplay
from solver.evidence.opr.inference import OUTSIDE, GroupResult

#: A read: access `sn` found what access `writer_sn` of core `writer` left (OUTSIDE and 0: from outside).
#: mixed: its bytes are of several writes, of which this is that of the first byte.
READ_FROM = np.dtype([("sn", "<u8"), ("writer_sn", "<u8"), ("writer", "<i2"), ("mixed", "u1")])

_BLOCK_SHIFT, _BLOCK_MASK = np.uint64(6), np.uint64(63)
_BLOCK_BYTES, _FIRST_BLOCKS = 64, 1 << 6


class _Sources(NamedTuple):
    """Where each byte that a member knows came from. core: int16[blocks, 64]. sn: uint64[blocks, 64]."""

    table: Table
    core: NDArray[np.int16]
    sn: NDArray[np.uint64]


def _room(n: int, old: _Sources | None) -> _Sources:
    core, sn = np.full((n, _BLOCK_BYTES), OUTSIDE, np.int16), np.zeros((n, _BLOCK_BYTES), np.uint64)
    if old is None:
        return _Sources(new_table(2 * n), core, sn)
    core[: len(old.core)], sn[: len(old.sn)] = old.core, old.sn
    return _Sources(grow(old.table, n), core, sn)


@inner
def _set_source(sources, address, size, core, sn):  # type: ignore[no-untyped-def]
    for k in range(size):
        at = address + np.uint64(k)
        slot, place = find_or_insert(sources.table, at >> _BLOCK_SHIFT), np.int64(at & _BLOCK_MASK)
        sources.core[slot, place] = core
        sources.sn[slot, place] = sn


@inner
def _source(sources, address, size, found):  # type: ignore[no-untyped-def]
    for k in range(size):
        at = address + np.uint64(k)
        slot, place = find_or_insert(sources.table, at >> _BLOCK_SHIFT), np.int64(at & _BLOCK_MASK)
        core, sn = sources.core[slot, place], sources.sn[slot, place]
        if k == 0:
            found.writer, found.writer_sn, found.mixed = core, sn, 0
        elif core != found.writer or sn != found.writer_sn:
            found.mixed = 1


@njit(cache=True)
def follow_reads(rows, start, member, sources, news, at, out):  # type: ignore[no-untyped-def]
    """A member's accesses rows[start:] (EVENT[n], `seq` being SN - 1). news: COMMUNICATION[] of the
    member, used up to `at`. out: READ_FROM[n]. Returns (first row not done, next of `news`, reads)."""
    n = 0
    for i in range(start, rows.shape[0]):
        row = rows[i]
        if not has_room(sources.table, 2) or sources.table.used[0] + 2 > sources.core.shape[0]:
            return i, at, n
        if (row.flags & UNCACHED) != 0:
            continue
        sn, size = row.seq + np.uint64(1), np.int64(row.size)
        if at < news.shape[0] and news[at].sn == sn:
            _set_source(sources, row.addr, size, news[at].writer, news[at].writer_sn)
            at += 1
        if row.kind != WRITE:
            out[n].sn = sn
            _source(sources, row.addr, size, out[n])
            n += 1
        if row.kind != READ:
            _set_source(sources, row.addr, size, member, sn)
    return rows.shape[0], at, n


def reads_from(recording: Recording, log: OprLog, result: GroupResult, core: int) -> NDArray[np.void]:
    """Of every read of a member, the write that it found: READ_FROM[n], by SN.

    SN k is the k-th access of the core: of its traced replay the k-th row that is no fetch of code.
    result: of `replay_group` over the same log. Raises Divergence, FormatError.
    """
    news = result.communications[result.communications["reader"] == core]
    sources, at, pieces = _room(_FIRST_BLOCKS, None), 0, [np.zeros(0, READ_FROM)]
    for rows in MemberReplay(recording, log, core).run():
        done = 0
        while done < len(rows):
            out = np.zeros(len(rows) - done, READ_FROM)
            start = done
            done, at, n = follow_reads(rows, start, core, sources, news, at, out)
            pieces.append(out[:n])
            if done < len(rows):
                sources = _room(2 * len(sources.core), sources)
    return np.concatenate(pieces)
