"""Reading the log of the agents that are not cores: what they read and wrote, and the strata between.

An agent has no instructions: its stream is ordered by access number, and that number stands where a core
has its instruction count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT
from emu.bus.sync_points import SYNC_POINT
from recorder.files.agent_codec import AGENT_OP, BACKWARDS, MARK, REASONS, SYNC, Rows, decode_ops
from recorder.files.frame import DamageError, FileHeader, iter_frames
from recorder.files.manifest import MAX_CORES

_ROW_LEAST = 1


def iter_agent_ops(
    path: Path, header: FileHeader, memory: int, n_cores: int, *, partial_tail: bool = False
) -> Iterator[Rows]:
    """The rows of the agent log, frame by frame: AGENT_OP[n], marks of strata and sync points included.

    header: what the file header must say. memory: bytes of guest memory, inside which accesses must lie.
    n_cores: of the recording; 0 where its version has no sync points. partial_tail: the recorder was killed.
    Raises FormatError.
    """
    number = stratum = 0
    met = np.zeros(MAX_CORES, np.uint64)
    for frame, raw in iter_frames(path, header, partial_tail=partial_tail):
        rows = np.empty(min(frame.records, len(raw) // _ROW_LEAST), dtype=AGENT_OP)
        n, error, at = decode_ops(np.frombuffer(raw, dtype=np.uint8), np.uint64(memory), n_cores, rows)
        if error:
            raise DamageError(path, frame.offset, f"{REASONS[error]} (byte {at} of the frame's payload)")
        if n == 0 or n != frame.records:
            raise DamageError(
                path, frame.offset, "rows in a frame", expected=max(frame.records, 1), found=int(n)
            )
        found = int(rows[0]["number"]), int(rows[0]["stratum"])
        if found != (number, stratum):
            expected = f"access {number} after {stratum} strata"
            shown = f"access {found[0]} after {found[1]} strata"
            raise DamageError(path, frame.offset, "a frame of accesses", expected=expected, found=shown)
        if (frame.first, frame.last) != (number, int(rows[-1]["number"])):
            raise DamageError(path, frame.offset, "a frame of accesses is not in the range it declares")
        bad, marks, points = count_rows(rows, met)
        if bad >= 0:
            core = int(rows["cause"][bad])
            raise DamageError(
                path, frame.offset, REASONS[BACKWARDS], expected=f"core {core} at {met[core]} or later",
                found=int(rows["addr"][bad]),
            )  # fmt: skip
        number += len(rows) - marks - points
        stratum += marks
        yield rows


@njit(cache=True)
def count_rows(rows, met):  # type: ignore[no-untyped-def]
    """Count marks of strata and sync points among rows (AGENT_OP[n]). met: uint64 (cores,), where each core
    was met last; updated. Returns (the first sync point that lies before that, or -1; marks; points)."""
    marks = points = 0
    for i in range(rows.size):
        if rows[i].kind == MARK:
            marks += 1
        elif rows[i].kind == SYNC:
            points += 1
            if rows[i].addr < met[rows[i].cause]:
                return i, marks, points
            met[rows[i].cause] = rows[i].addr
    return -1, marks, points


def iter_agent_events(batches: Iterable[Rows], stream: int) -> Iterator[npt.NDArray[np.void]]:
    """The accesses among batches of rows of the agent log (AGENT_OP[n]), as EVENT[m].

    stream: the agents' stream number (the number of cores). `seq` and `count` are the access number; an
    agent has no pc, and `pc` holds the cause (DMA, INTERRUPT, ...).
    """
    for rows in batches:
        events = np.zeros(len(rows), EVENT)
        n = fill_events(rows, stream, events)
        if n:
            yield events[:n]


@njit(cache=True)
def fill_events(rows, stream, events):  # type: ignore[no-untyped-def]
    """Fill `events` (EVENT[], all zero) with the accesses among rows (AGENT_OP[n]). Returns how many."""
    n = 0
    for i in range(rows.size):
        row = rows[i]
        if row.kind == MARK or row.kind == SYNC:
            continue
        event = events[n]
        event.addr, event.old, event.new, event.stratum = row.addr, row.old, row.new, row.stratum
        event.size, event.kind, event.flags = row.size, row.kind, row.flags
        event.seq, event.count, event.pc, event.core = row.number, row.number, row.cause, stream
        n += 1
    return n


def agent_cuts(rows: Rows) -> npt.NDArray[np.uint64]:
    """The access number at each stratum marked in `rows` (AGENT_OP[n]): uint64[strata]."""
    cuts: npt.NDArray[np.uint64] = rows["number"][rows["kind"] == MARK].astype(np.uint64)
    return cuts


def is_access(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows (AGENT_OP[n]) are accesses: bool[n]."""
    answer: npt.NDArray[np.bool_] = (rows["kind"] != MARK) & (rows["kind"] != SYNC)
    return answer


def agent_rows(events: Rows, syncs: Rows, stratum: int) -> Rows:
    """Accesses (EVENT[n]) and sync points (SYNC_POINT[m]) between two strata, as rows of the agent log in
    their order: AGENT_OP[n + m]. stratum: strata before them."""
    rows = np.zeros(len(events) + len(syncs), AGENT_OP)
    met, done = rows[: len(syncs)], rows[len(syncs) :]
    met["number"], met["addr"], met["kind"] = syncs["number"], syncs["count"], SYNC
    met["cause"], met["flags"], met["old"] = syncs["core"], syncs["way"], syncs["who"]
    for name in ("addr", "old", "new", "size", "kind", "flags"):
        done[name] = events[name]
    done["number"], done["cause"] = events["seq"], events["pc"]
    rows["stratum"] = stratum
    if not len(syncs):
        return rows
    # A sync point stands before the access that has its number.
    return rows[np.argsort(rows["number"], kind="stable")]


def no_sync_points() -> npt.NDArray[np.void]:
    """SYNC_POINT[0]."""
    return np.zeros(0, SYNC_POINT)


def sync_points_of(rows: Rows) -> npt.NDArray[np.void]:
    """The sync points among rows of the agent log (AGENT_OP[n]): SYNC_POINT[m]."""
    found = rows[rows["kind"] == SYNC]
    if not len(found):
        return no_sync_points()
    syncs = np.zeros(len(found), SYNC_POINT)
    for name, given in (
        ("number", "number"), ("count", "addr"), ("stratum", "stratum"), ("who", "old"), ("core", "cause"),
        ("way", "flags"),
    ):  # fmt: skip
        syncs[name] = found[given]
    return syncs
