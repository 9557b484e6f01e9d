"""The evidence stream `linkage` in memory, as inference reads it: who wrote a variable next, and which
version a core saw some time after each of its reads (ICSE 2012, Figure 4: LW_x and TR_i)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.pages import host_memory
from isa.errors import FormatError
from recorder.linkage_codec import BOUND, DOUBLE, ORDER, SHARE, Head, Piece, iter_linkage
from recorder.linkage_kernels import Names
from recorder.reader import Recording

Ints = NDArray[np.int64]
_REMEDY = "the recording is damaged: record again"


class Runs(NamedTuple):
    """Which versions each stream wrote. first: int64 (slots * streams + 1,), where the runs of a slot and
    stream begin. version, n: int64 (runs,), the first version of a run and how many. at, used: int64
    (slots * streams,), the run that the stream has come to, and how much of it is used."""

    first: Ints
    version: Ints
    n: Ints
    at: Ints
    used: Ints


class Shares(NamedTuple):
    """Since when variables are shared. slot_of: int32 (variables,), 1 + the variable's slot, 0 where it never
    is. owner, events, writes: int64 (slots,), the stream that had it to itself, until it had made so many
    events, and the writes that were made by then. private: int64 (slots,), those of them that inference has
    passed."""

    slot_of: NDArray[np.int32]
    owner: Ints
    events: Ints
    writes: Ints
    private: Ints


class Bounds(NamedTuple):
    """Versions seen after reads, as runs. first: int64 (streams + 1,). version, n: int64 (runs,). at, used:
    int64 (streams,), as in `Runs`."""

    first: Ints
    version: Ints
    n: Ints
    at: Ints
    used: Ints


class LinkageLog(NamedTuple):
    """The whole stream. streams: cores and the agents."""

    streams: int
    names: Names
    shares: Shares
    runs: Runs
    bounds: Bounds


def read_linkage(recording: Recording) -> LinkageLog:
    """The recording's linkages. Raises UsageError if it has none, FormatError."""
    head: Head | None = None
    pieces: list[Piece] = []
    for item in iter_linkage(recording):
        if isinstance(item, Head):
            head = item
        else:
            pieces.append(item)
    where = str(recording.path / "evidence-linkage.log")
    if head is None:
        raise FormatError("evidence linkage is empty", where=where, remedy=_REMEDY)
    grouping, streams = head.grouping, recording.manifest.n_cores + 1
    names = Names(np.uint64(grouping.shift), np.uint64(len(grouping.objects)), grouping.symbol_of_word())
    shares = _shares(_joined(pieces, SHARE, 0, 4), grouping.n_variables, where)
    runs = _runs(_joined(pieces, ORDER, 0, 3), shares, streams, where)
    per_stream = [_joined(pieces, BOUND, stream, 2) for stream in range(streams)]
    return LinkageLog(streams, names, shares, runs, _bounds(per_stream, bool(head.compressions & DOUBLE)))


def _joined(pieces: list[Piece], kind: int, stream: int, columns: int) -> Ints:
    empty = np.empty((0, columns), np.uint64)
    found = [piece.table for piece in pieces if piece.kind == kind and piece.stream == stream]
    return np.concatenate([empty, *found]).astype(np.int64)


def _shares(table: Ints, n_variables: int, where: str) -> Shares:
    slot_of = host_memory(n_variables * 4).view(np.int32)
    if len(np.unique(table[:, 0])) != len(table):
        raise FormatError("a variable that is shared twice", where=where, remedy=_REMEDY)
    slot_of[table[:, 0]] = np.arange(1, len(table) + 1, dtype=np.int32)
    owner, events, writes = (np.ascontiguousarray(table[:, k]) for k in (1, 2, 3))
    return Shares(slot_of, owner, events, writes, np.zeros(len(table), np.int64))


def _runs(table: Ints, shares: Shares, streams: int, where: str) -> Runs:
    slot = shares.slot_of[table[:, 0]].astype(np.int64) - 1
    if (slot < 0).any():
        raise FormatError("writes to a variable that is not shared", where=where, remedy=_REMEDY)
    # A slot's runs in the order in which they were written give each its first version.
    by_slot = np.argsort(slot, kind="stable")
    slot, stream, n = slot[by_slot], table[by_slot, 1], table[by_slot, 2]
    total = np.cumsum(n) - n
    begins = np.searchsorted(slot, np.arange(len(shares.owner)))
    base = np.append(total, 0)[np.minimum(begins, len(total))]
    version = total - base[slot] + shares.writes[slot] + 1
    key = slot * streams + stream
    by_key = np.argsort(key, kind="stable")
    first = np.searchsorted(key[by_key], np.arange(len(shares.owner) * streams + 1))
    return Runs(
        first.astype(np.int64),
        version[by_key],
        n[by_key],
        first[:-1].astype(np.int64),
        np.zeros_like(first[:-1]),
    )


def _bounds(tables: list[Ints], double: bool) -> Bounds:
    """Versions as numbers of writes: one that is under way may have happened."""
    first = np.cumsum([0] + [len(table) for table in tables]).astype(np.int64)
    whole = np.concatenate(tables)
    version = (whole[:, 0] + 1) >> 1 if double else whole[:, 0]
    n = np.ascontiguousarray(whole[:, 1])
    return Bounds(first, np.ascontiguousarray(version), n, first[:-1].copy(), np.zeros(len(tables), np.int64))
