"""Reading the log of the agents that are not cores: what they read and wrote, and the strata between.

An agent has no instructions: its stream is ordered by access number, and that number stands where a core
has its instruction count.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recorder.agent_codec import AGENT_OP, MARK, REASONS, Rows, decode_ops
from recorder.event import EVENT
from recorder.frame import DamageError, FileHeader, iter_frames

_ROW_LEAST = 1


def iter_agent_ops(
    path: Path, header: FileHeader, memory: int, *, partial_tail: bool = False
) -> Iterator[Rows]:
    """The rows of the agent log, frame by frame: AGENT_OP[n], marks of strata included.

    header: what the file header must say. memory: bytes of guest memory, inside which accesses must lie.
    partial_tail: the recorder was killed. Raises FormatError.
    """
    number = stratum = 0
    for frame, raw in iter_frames(path, header, partial_tail=partial_tail):
        rows = np.empty(min(frame.records, len(raw) // _ROW_LEAST), dtype=AGENT_OP)
        n, error, at = decode_ops(np.frombuffer(raw, dtype=np.uint8), np.uint64(memory), rows)
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
        marks = int(np.count_nonzero(rows["kind"] == MARK))
        number, stratum = number + int(n) - marks, stratum + marks
        yield rows


def iter_agent_events(
    path: Path, header: FileHeader, memory: int, stream: int, *, partial_tail: bool = False
) -> Iterator[npt.NDArray[np.void]]:
    """The accesses as EVENT[n], frame by frame.

    stream: the agents' stream number (the number of cores). `seq` and `count` are the access number; an
    agent has no pc, and `pc` holds the cause (DMA, INTERRUPT, ...). Raises FormatError, see iter_agent_ops.
    """
    for rows in iter_agent_ops(path, header, memory, partial_tail=partial_tail):
        kept = rows[rows["kind"] != MARK]
        events = np.zeros(len(kept), dtype=EVENT)
        for name in ("addr", "old", "new", "stratum", "size", "kind", "flags"):
            events[name] = kept[name]
        events["seq"] = events["count"] = kept["number"]
        events["pc"], events["core"] = kept["cause"], stream
        yield events


def agent_cuts(rows: Rows) -> npt.NDArray[np.uint64]:
    """The access number at each stratum marked in `rows` (AGENT_OP[n]): uint64[strata]."""
    cuts: npt.NDArray[np.uint64] = rows["number"][rows["kind"] == MARK].astype(np.uint64)
    return cuts
