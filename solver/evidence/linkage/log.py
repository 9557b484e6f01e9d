"""The evidence stream `linkage` in memory, as inference reads it: who wrote a variable next, and which
version a core saw some time after each of its reads (ICSE 2012, Figure 4: LW_x and TR_i)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError
from corebraid.base.host_memory import host_memory
from recorder.evidence.linkage.codec import (
    BOUND,
    DOUBLE,
    FOLLOW,
    LOOSENED,
    MOST,
    OPENED,
    ORDER,
    SHARE,
    SKIPPED,
    VALUE,
    Head,
    Piece,
    iter_linkage,
)
from recorder.evidence.linkage.kernels import Names
from recorder.files.evidence_names import LINKAGE, evidence_log
from recorder.files.reader import Recording
from solver.evidence.linkage.values import Values, no_values

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
    """Versions seen after reads, as BOUND rows. double: 1 if they count twice a write, and are odd during
    one. follow: whether n counts reads before the row that saw what was known. first: int64 (streams + 1,).
    version, n: int64 (rows,). at, used: int64 (streams,), as in `Runs`. seen_bits, seen: the recorder's table
    of last versions as it follows from the events."""

    double: int
    follow: bool
    seen_bits: int
    first: Ints
    version: Ints
    n: Ints
    at: Ints
    used: Ints
    seen: NDArray[np.uint64]


class Guards(NamedTuple):
    """What locks protect (section V-C). lock: int64 (slots,), 2 + the slot of the lock under which a variable
    is once it is shared, 1 if that lock is never shared, 0 if it is under none. until, reads_until: int64
    (slots * streams,), by which event of a stream its writes, and its reads, are no more skipped. written:
    int64 (slots,), writes to it by then. skipped: accesses that are not logged, writes among them; of these
    those that inference has not met yet.

    How far inference has come: done, int64 (slots,), writes that are skipped, or before those. passed, int64
    (slots,), writes to a lock by the stream that has it to itself; at, used, as in `Runs`, writes to a lock;
    last, int64 (slots * streams,), the version that the stream's last write to a lock made. is_lock: uint8
    (slots,). Those by slot and stream are empty where nothing is skipped."""

    lock: Ints
    until: Ints
    reads_until: Ints
    written: Ints
    done: Ints
    passed: Ints
    at: Ints
    used: Ints
    last: Ints
    is_lock: NDArray[np.uint8]
    skipped: Ints


class LinkageLog(NamedTuple):
    """The whole stream. streams: cores and the agents. values: empty unless they are asked for."""

    streams: int
    names: Names
    shares: Shares
    runs: Runs
    bounds: Bounds
    values: Values
    guards: Guards


def read_linkage(recording: Recording, with_values: bool = False) -> LinkageLog:
    """The recording's linkages. with_values: also the values of reads, which inference does not need.

    Raises UsageError if it has none, FormatError."""
    where = str(recording.path / evidence_log(LINKAGE))
    return linkage_log(iter_linkage(recording), recording.manifest.n_cores + 1, where, with_values)


def linkage_log(
    items: Iterable[Head | Piece], streams: int, where: str, with_values: bool = False
) -> LinkageLog:
    """The same of decoded tables. where: what to name in an error. Raises FormatError."""
    head: Head | None = None
    pieces: list[Piece] = []
    for item in items:
        if isinstance(item, Head):
            head = item
        else:
            pieces.append(item)
    if head is None:
        raise FormatError("evidence linkage is empty", where=where, remedy=_REMEDY)
    grouping = head.grouping
    names = Names(np.uint64(grouping.shift), np.uint64(len(grouping.objects)), grouping.symbol_of_word())
    shared = _joined(pieces, SHARE, 0, 5).astype(np.int64)
    shares = _shares(shared, grouping.n_variables, where)
    opened = _joined(pieces, OPENED, 0, 2 + streams).astype(np.int64)
    loosened = _joined(pieces, LOOSENED, 0, 2 + streams).astype(np.int64)
    guards = _guards(shared, opened, loosened, shares, where)
    guards.skipped[:] = _joined(pieces, SKIPPED, 0, 2).astype(np.int64).sum(axis=0)
    runs = _runs(_joined(pieces, ORDER, 0, 3).astype(np.int64), shares, guards, streams, where)
    if len(guards.at):
        guards.at[:] = runs.at
    bounds = _bounds(_by_stream(pieces, BOUND, streams), head)
    values = _values(_by_stream(pieces, VALUE, streams), head) if with_values else no_values(streams)
    return LinkageLog(streams, names, shares, runs, bounds, values, guards)


def _by_stream(pieces: list[Piece], kind: int, streams: int) -> list[NDArray[np.uint64]]:
    return [_joined(pieces, kind, stream, 2) for stream in range(streams)]


def _joined(pieces: list[Piece], kind: int, stream: int, columns: int) -> NDArray[np.uint64]:
    empty = np.empty((0, columns), np.uint64)
    found = [piece.table for piece in pieces if piece.kind == kind and piece.stream == stream]
    return np.concatenate([empty, *found])


def _shares(table: Ints, n_variables: int, where: str) -> Shares:
    slot_of = host_memory(n_variables * 4).view(np.int32)
    if len(np.unique(table[:, 0])) != len(table):
        raise FormatError("a variable that is shared twice", where=where, remedy=_REMEDY)
    slot_of[table[:, 0]] = np.arange(1, len(table) + 1, dtype=np.int32)
    owner, events, writes = (np.ascontiguousarray(table[:, k]) for k in (1, 2, 3))
    return Shares(slot_of, owner, events, writes, np.zeros(len(table), np.int64))


def _guards(table: Ints, opened: Ints, loosened: Ints, shares: Shares, where: str) -> Guards:
    """table, opened, loosened: SHARE, OPENED and LOOSENED rows."""
    n, streams = len(table), opened.shape[1] - 2
    guard, loose = table[:, 4].copy(), shares.slot_of[loosened[:, 0]].astype(np.int64) - 1
    given = loosened[:, 1] > 0
    if (loose < 0).any() or len(np.unique(loose)) != len(loose) or ((guard[loose] > 0) == given).any():
        raise FormatError("reads are logged of what no lock protects", where=where, remedy=_REMEDY)
    guard[loose[given]] = loosened[given, 1]
    lock = np.where(guard > 0, shares.slot_of[np.maximum(guard, 1) - 1].astype(np.int64) + 1, 0)
    slot = shares.slot_of[opened[:, 0]].astype(np.int64) - 1
    if (slot < 0).any() or (lock[slot] == 0).any() or len(np.unique(slot)) != len(slot):
        raise FormatError("a variable is opened that no lock protects", where=where, remedy=_REMEDY)
    if (opened[:, 1] < shares.writes[slot]).any():
        raise FormatError("a variable has lost writes", where=where, remedy=_REMEDY)
    written = np.full(n, MOST, np.int64)
    written[slot] = opened[:, 1]
    many = n if lock.any() else 0
    until = np.full((many, streams), MOST, np.int64)
    if many:
        until[slot] = opened[:, 2:]
    reads = until.copy()
    if many:
        reads[loose] = np.minimum(reads[loose], loosened[:, 2:])
    is_lock = np.zeros(n, np.uint8)
    is_lock[lock[lock > 1] - 2] = 1
    passed = np.zeros(n, np.int64)
    at, used, last = (np.zeros(many * streams, np.int64) for _ in range(3))
    return Guards(
        lock, until.ravel(), reads.ravel(), written, shares.writes.copy(), passed, at, used, last, is_lock,
        np.zeros(2, np.int64),
    )  # fmt: skip


def _runs(table: Ints, shares: Shares, guards: Guards, streams: int, where: str) -> Runs:
    slot = shares.slot_of[table[:, 0]].astype(np.int64) - 1
    if (slot < 0).any():
        raise FormatError("writes to a variable that is not shared", where=where, remedy=_REMEDY)
    # A slot's runs in the order in which they were written give each its first version.
    by_slot = np.argsort(slot, kind="stable")
    slot, stream, n = slot[by_slot], table[by_slot, 1], table[by_slot, 2]
    total = np.cumsum(n) - n
    begins = np.searchsorted(slot, np.arange(len(shares.owner)))
    base = np.append(total, 0)[np.minimum(begins, len(total))]
    # Those that are not logged, by the first stream alone or under a lock, come before.
    before = np.where(guards.written < MOST, guards.written, shares.writes)
    version = total - base[slot] + before[slot] + 1
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


def _bounds(tables: list[NDArray[np.uint64]], head: Head) -> Bounds:
    first, whole = _one_after_the_other(tables)
    version, n = (np.ascontiguousarray(whole[:, k]).astype(np.int64) for k in (0, 1))
    seen = np.zeros((len(tables), 1 << head.seen_bits, 2), np.uint64)
    double, follow = int(bool(head.compressions & DOUBLE)), bool(head.compressions & FOLLOW)
    used = np.zeros(len(tables), np.int64)
    return Bounds(double, follow, head.seen_bits, first, version, n, first[:-1].copy(), used, seen)


def _values(tables: list[NDArray[np.uint64]], head: Head) -> Values:
    first, whole = _one_after_the_other(tables)
    value, hits = np.ascontiguousarray(whole[:, 0]), whole[:, 1].astype(np.int64)
    last = np.zeros((len(tables), 1 << head.shadow_bits), np.uint64)
    used, tally = np.zeros(len(tables), np.int64), np.zeros(3, np.int64)
    begin = first[:-1].copy()
    return Values(head.compressions, head.shadow_bits, first, value, hits, begin, used, last, tally)


def _one_after_the_other(tables: list[NDArray[np.uint64]]) -> tuple[Ints, NDArray[np.uint64]]:
    first = np.cumsum([0] + [len(table) for table in tables]).astype(np.int64)
    return first, np.concatenate(tables)
