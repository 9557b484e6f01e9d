"""How good OPR's inference is: compared with the sealed truth, which the engine never sees.

The truth of a new value is the core that wrote the last of its bytes that the reader did not write itself.
What a put of core K writes is written by K; what a get brings was written by whoever wrote it at its origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import EVENT, FETCH, READ, UNCACHED
from recorder.files.agent_codec import GET, PUT
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.traces import RecordingTraces
from solver.evidence.opr.inference import OUTSIDE, GroupResult

#: Owner of a byte: 0 nobody yet, core + 1, or an agent that no core told to.
_AGENT = 255
_LAST_GET = GET + 63
_SELF = -2
_ONE = np.uint64(1)


@dataclass(frozen=True)
class Score:
    """Of new values: all; own: bytes that only their reader had written (left out of the rest); within: truly
    written by a member; claimed: said to be; right: said to be of the very member that wrote them;
    outside_right: rightly said to be from outside."""

    values: int
    own: int
    within: int
    claimed: int
    right: int
    outside_right: int

    @property
    def precision(self) -> float | None:
        """Of what was said to come from a member, how much did come from it; None if nothing was."""
        return self.right / self.claimed if self.claimed else None

    @property
    def recall(self) -> float | None:
        """Of what came from a member, how much was said to; None if nothing did."""
        return self.right / self.within if self.within else None


@njit(cache=True)
def _writer_of(owner, when, row, core):  # type: ignore[no-untyped-def]
    """The core that wrote the newest of the bytes that are not `core`'s own; OUTSIDE; or _SELF."""
    best, latest, own = np.int64(OUTSIDE), np.int64(-1), True
    for k in range(np.int64(row.size)):
        at = np.int64(row.addr) + k
        held = np.int64(owner[at])
        if held == core + 1:
            continue
        own = False
        if np.int64(when[at]) >= latest:
            latest = np.int64(when[at])
            best = np.int64(OUTSIDE) if held == 0 or held == _AGENT else held - 1
    return np.int64(_SELF) if own else best


@njit(cache=True)
def _set_owner(owner, when, row, who, now):  # type: ignore[no-untyped-def]
    for k in range(np.int64(row.size)):
        owner[np.int64(row.addr) + k] = who
        when[np.int64(row.addr) + k] = now


@njit(cache=True)
def follow_core(rows, core, sn, written, now, wanted, at, truth):  # type: ignore[no-untyped-def]
    """A core's accesses in the order that really ran (EVENT[n]). wanted: uint64[], SNs of its new values, of
    which truth (int64[]) is to be filled from `at` on. written: (owner, when), by whom and when each byte was
    last written. Returns (SN, time, next wanted)."""
    owner, when = written
    for i in range(rows.shape[0]):
        row = rows[i]
        if (row.flags & FETCH) != 0:
            continue
        sn += _ONE
        now += 1
        if at < wanted.shape[0] and wanted[at] == sn:
            truth[at] = _writer_of(owner, when, row, core)
            at += 1
        if row.kind != READ and (row.flags & UNCACHED) == 0:
            _set_owner(owner, when, row, core + 1, now)
    return sn, now, at


@njit(cache=True)
def follow_agents(rows, owner, when, now, held):  # type: ignore[no-untyped-def]
    """The agents' accesses. held: uint8[8], owners of the word that a get has read last."""
    for i in range(rows.shape[0]):
        row = rows[i]
        now += 1
        cause, start = np.int64(row.pc), np.int64(row.addr)
        is_get = GET <= cause <= _LAST_GET
        if row.kind == READ:
            if is_get:
                held[:] = owner[start : start + 8]
            continue
        _set_owner(owner, when, row, cause - PUT + 1 if PUT <= cause < GET else _AGENT, now)
        if is_get:
            owner[start : start + 8] = held
    return now


class _Cursor:
    """A stream's events, taken up to a count."""

    def __init__(self, pieces: Iterator[NDArray[np.void]]) -> None:
        self._pieces = pieces
        self._rows = np.zeros(0, EVENT)

    def upto(self, end: int) -> Iterator[NDArray[np.void]]:
        while True:
            n = int(np.searchsorted(self._rows["count"], np.uint64(end), side="left"))
            if n:
                yield self._rows[:n]
            self._rows = self._rows[n:]
            if len(self._rows):
                return
            piece = next(self._pieces, None)
            if piece is None:
                return
            self._rows = piece


def true_writers(recording: Recording, result: GroupResult) -> NDArray[np.int64]:
    """Of each communication of the result, the core that truly wrote it, OUTSIDE, or -2 for its reader.

    Opens the sealed truth. Raises FormatError, Divergence.
    """
    traces = RecordingTraces(recording)
    n_cores = recording.manifest.n_cores
    cursors = [_Cursor(traces.chunks(stream)) for stream in range(n_cores + 1)]
    owner = host_memory(traces.memory_bytes)
    when = host_memory(8 * traces.memory_bytes).view(np.int64)
    rows = result.communications
    mine = [np.flatnonzero(rows["reader"] == core) for core in range(n_cores)]
    wanted = [np.ascontiguousarray(rows["sn"][index]) for index in mine]
    truth = [np.full(len(index), OUTSIDE, np.int64) for index in mine]
    sns, at = [0] * n_cores, [0] * n_cores
    now, held = 0, np.zeros(8, np.uint8)
    for slices in iter_sealed_truth(recording):
        for stream, end in slices.tolist():
            for events in cursors[stream].upto(end):
                if stream == n_cores:
                    now = follow_agents(events, owner, when, now, held)
                    continue
                sn, now, place = follow_core(
                    events, stream, np.uint64(sns[stream]), (owner, when), now,
                    wanted[stream], at[stream], truth[stream],
                )  # fmt: skip
                sns[stream], at[stream] = int(sn), int(place)
    whole = np.full(len(rows), OUTSIDE, np.int64)
    for index, found in zip(mine, truth, strict=True):
        whole[index] = found
    members = np.array([member.core for member in result.members])
    whole[(whole >= 0) & ~np.isin(whole, members)] = OUTSIDE
    return whole


def score(recording: Recording, result: GroupResult) -> Score:
    """Compare what was inferred with the sealed truth. Raises FormatError, Divergence."""
    truth = true_writers(recording, result)
    said, counted = result.communications["writer"].astype(np.int64), truth != _SELF
    right = counted & (said == truth)
    return Score(
        values=len(truth),
        own=int((~counted).sum()),
        within=int((counted & (truth >= 0)).sum()),
        claimed=int((counted & (said >= 0)).sum()),
        right=int((right & (said >= 0)).sum()),
        outside_right=int((right & (said == OUTSIDE)).sum()),
    )
