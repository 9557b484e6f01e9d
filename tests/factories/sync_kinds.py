"""Sync points by what made them, told from the logs and the rows, so that tests can leave one kind out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bench.true_threads import log_of
from corebraid.base.rows.event import UNCACHED
from corebraid.base.rows.record import CONTEXT_INTERRUPT, CONTEXT_SIGNAL, CONTEXT_SWITCH
from emu.bus.sync_points import ENTER, LEAVE
from recorder.files.agent_codec import EXIT, PAGE, SIGNAL
from recorder.files.reader import Recording
from solver.regions.traces import MemoryTraces

BOTH = ENTER | LEAVE
Mask = np.ndarray[Any, np.dtype[np.bool_]]
#: Device registers (firmware/include/machine.h) and the kinds of what their accesses make.
_REGISTERS = {
    0x058: "IPI", 0x098: "DMA start", 0x0A0: "DMA end", 0x128: "mailbox post", 0x138: "mailbox take",
    0x140: "mailbox take", 0x218: "put/get start", 0x220: "put/get start", 0x228: "put/get end",
}  # fmt: skip


def linux_kinds(recording: Recording, traces: MemoryTraces) -> dict[str, tuple[Mask, int]]:
    """kind -> (which sync points, which of their ways)."""
    points, n_cores = traces.syncs, recording.manifest.n_cores
    agents, n = traces.rows[n_cores], len(points)
    following = np.append(points["number"][1:], len(agents))
    cause = np.zeros(n, np.int64)
    acts = following > points["number"]
    cause[acts] = agents["pc"][points["number"][acts].astype(np.int64)]
    logs = [log_of(recording, core) for core in range(n_cores)]
    places = list(zip(points["core"].tolist(), points["count"].tolist(), strict=True))
    called = np.array([count in logs[core].calls for core, count in places], bool)
    why = [[why for why, _ in logs[core].at(count)] for core, count in places]
    switched, signalled = (
        np.array([w in ways for ways in why], bool) for w in (CONTEXT_SWITCH, CONTEXT_SIGNAL)
    )
    enter, leave = points["way"] & ENTER != 0, points["way"] & LEAVE != 0
    started, taken_off = np.zeros(n, bool), np.zeros(n, bool)
    seen: set[int] = set()
    for i, who in enumerate(points["who"].tolist()):
        if leave[i] and who not in seen:
            seen.add(who)
            started[i] = True
        later = np.flatnonzero((points["who"][i + 1 :] == who) & leave[i + 1 :])
        moves = len(later) > 0 and points["core"][i + 1 + later[0]] != points["core"][i]
        taken_off[i] = enter[i] and ((not leave[i] and moves) or (switched[i] and not called[i]))
    return {
        "call, ENTER": (enter & called, ENTER),
        "call, LEAVE": (leave & called, LEAVE),
        "page fill": ((cause == PAGE) & ~called, BOTH),
        "signal frame, ENTER": (enter & (cause == SIGNAL), ENTER),
        "signal frame, LEAVE": (leave & signalled, LEAVE),
        "taken off a core": (taken_off, ENTER),
        "put on a core": (leave & switched, LEAVE),
        "thread start": (leave & switched & started, LEAVE),
        "thread exit": (enter & (cause == EXIT), ENTER),
        "process end": (np.arange(n) >= n - n_cores, ENTER),
    }


def firmware_kinds(recording: Recording, traces: MemoryTraces) -> dict[str, tuple[Mask, int]]:
    """The same of firmware."""
    points, n_cores = traces.syncs, recording.manifest.n_cores
    logs = [log_of(recording, core) for core in range(n_cores)]
    places = list(zip(points["core"].tolist(), points["count"].tolist(), strict=True))
    interrupted = np.array(
        [any(why == CONTEXT_INTERRUPT for why, _ in logs[core].at(count)) for core, count in places], bool
    )
    kinds = {"interrupt, ENTER": (interrupted, ENTER), "interrupt, LEAVE": (interrupted, LEAVE)}
    for register, kind in _REGISTERS.items():
        accesses = set()
        for core, rows in enumerate(traces.rows[:n_cores]):
            device = (rows["flags"] & UNCACHED != 0) & (rows["addr"] == 0xF0000000 + register)
            accesses |= {(core, int(count) + 1) for count in rows["count"][device]}
        mine = np.array([place in accesses for place in places], bool)
        kinds[kind] = (kinds.get(kind, (np.zeros(len(points), bool), BOTH))[0] | mine, BOTH)
    return kinds


def without(traces: MemoryTraces, mask: Mask, ways: int) -> MemoryTraces:
    """The same without these ways of some sync points; threads are then told apart no more."""
    points = traces.syncs.copy()
    points["who"] = 0
    points["way"][mask] &= np.uint8(0xFF ^ ways)
    return replace(traces, syncs=points[points["way"] != 0])
