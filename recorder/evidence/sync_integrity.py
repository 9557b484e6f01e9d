"""Whether the agents' sync points go with the rest of a recording: what each log says of a call, a context or
an access of an agent, the others must say too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.rows.record import (
    CONTEXT,
    CONTEXT_CALL,
    CONTEXT_INTERRUPT,
    CONTEXT_SIGNAL,
    CONTEXT_SWITCH,
    INPUT,
    INPUT_CALL,
)
from emu.bus.sync_points import ENTER, LEAVE
from recorder.files.agent_codec import CALL, DMA, EXIT, INTERRUPT, PAGE, PUT, SYNC
from recorder.files.agent_log import is_access
from recorder.files.reader import Recording, iter_agent_rows, iter_core_records, strata, sync_points

Rows = npt.NDArray[np.void]
_BY_AGENTS = (CONTEXT_INTERRUPT, CONTEXT_SWITCH, CONTEXT_SIGNAL, CONTEXT_CALL)


def sync_fault(recording: Recording) -> str:
    """What is wrong with the sync points of a complete recording whose files are sound, "" if nothing is.
    Raises FormatError."""
    points = sync_points(recording)
    for core in range(recording.manifest.n_cores):
        if found := _core_fault(recording, core, points[points["core"] == core]):
            return found
    return _place_fault(recording, points) or _thread_fault(points) or _agent_fault(recording)


def _core_fault(recording: Recording, core: int, points: Rows) -> str:
    """Every call and every context that an agent made has its sync point."""
    entered, left = (points[points["way"] & way != 0] for way in (ENTER, LEAVE))
    threads = set(zip(left["count"].tolist(), left["who"].tolist(), strict=True))
    linux = recording.manifest.linux
    for rows, _ in iter_core_records(recording, core):
        calls = rows[(rows["kind"] == INPUT) & (rows["flags"] == INPUT_CALL)]["count"] + np.uint64(1)
        missing = calls[~np.isin(calls, entered["count"])] if len(calls) else calls
        if len(missing):
            return f"core {core}, instruction count {int(missing[0]) - 1}: a system call without a sync point"
        contexts = rows[rows["kind"] == CONTEXT]
        made = contexts[np.isin(contexts["flags"], _BY_AGENTS)] if len(contexts) else contexts
        for row in made:
            count, who = int(row["count"]), int(row["addr"]) if linux else 0
            if (count, who) not in threads:
                named = f" of thread {who}" if linux else ""
                return f"core {core}, instruction count {count}: a context{named} without a sync point"
    return ""


def _place_fault(recording: Recording, points: Rows) -> str:
    """Every sync point lies in the region in which its core was."""
    cuts = strata(recording).reshape(-1, recording.manifest.n_streams)
    counts = np.array(recording.manifest.instructions, np.uint64)
    edges = np.vstack([np.zeros_like(counts), cuts[:, : len(counts)], counts + np.uint64(1)])
    region, core = points["stratum"].astype(np.int64), points["core"]
    wrong = (points["count"] < edges[region, core]) | (points["count"] > edges[region + 1, core])
    if not wrong.any():
        return ""
    point = points[int(np.argmax(wrong))]
    return f"core {point['core']}, instruction count {point['count']}: a sync point outside of its region"


def _thread_fault(points: Rows) -> str:
    """A thread is on one core at a time, and a core has one thread at a time."""
    where: dict[int, int] = {}
    runs: dict[int, int] = {}
    for core, way, who, count in zip(
        *(points[name].tolist() for name in ("core", "way", "who", "count")), strict=True
    ):
        if not who:
            continue
        place = f"core {core}, instruction count {count}"
        if where.get(who, core) != core:
            return f"{place}: thread {who} is on core {where[who]} at the same time"
        if runs.get(core, who) != who:
            return f"{place}: thread {who} where thread {runs[core]} runs"
        if way & ENTER:
            where.pop(who, None)
            runs.pop(core, None)
        if way & LEAVE:
            where[who], runs[core] = core, who
    return ""


def _agent_fault(recording: Recording) -> str:
    """Whatever an agent did somebody had asked for."""
    entered: set[int] = set()
    way = 0
    for rows in iter_agent_rows(recording):
        kept = rows[(rows["kind"] == SYNC) | is_access(rows)]
        met = kept["kind"] == SYNC
        latest = np.maximum.accumulate(np.where(met, np.arange(len(kept)), -1))
        ways = np.where(latest >= 0, kept["flags"][latest], way)
        cause = kept["cause"]
        called = (cause == INTERRUPT) | ((cause >= CALL) & (cause <= EXIT))
        # Step by step a page is made present while the core's stores still wait: it is not met for that.
        called &= (cause != PAGE) | (recording.manifest.model != "tso")
        wrong = ~met & called & (ways != ENTER)
        for core in np.unique(cause[~met & (cause >= PUT)] & (PUT - 1)).tolist():
            asked = np.maximum.accumulate(met & (cause == core) & (kept["flags"] & ENTER != 0))
            if core not in entered:
                wrong |= ~met & (cause >= PUT) & (cause & (PUT - 1) == core) & ~asked
        asked = np.maximum.accumulate(met & (kept["flags"] & ENTER != 0))
        wrong |= ~met & (cause == DMA) & ~asked & (not entered)
        if wrong.any():
            number = kept["number"][int(np.argmax(wrong))]
            return f"access {number} of an agent: no core had asked for it"
        entered |= set(cause[met & (kept["flags"] & ENTER != 0)].tolist())
        way = int(ways[-1]) if len(ways) else way
    return ""
