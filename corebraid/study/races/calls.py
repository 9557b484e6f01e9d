"""System calls of a recorded Linux program that put threads in order, with what they were asked.

A log has a call's number and its result where it has returned to its thread at once; what it was asked stands
in registers, which an isolated replay of the core has as it comes to the call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import INPUT, INPUT_CALL
from corebraid.names.threads import Threads
from emu.bus.sync_points import ENTER
from isa.decoder import decoder_of
from isa.registry import isa_named, linux_abi_of
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.pause import CoreState, states_at

Rows = NDArray[np.void]

#: Calls by what they do to the order of threads. What other calls do is nothing.
STARTS = frozenset({"clone", "clone3", "fork", "vfork"})
FUTEX = frozenset({"futex"})
SENDS = frozenset({
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "sendfile",
    "splice", "tee", "vmsplice", "copy_file_range", "close", "shutdown", "connect", "accept", "accept4",
})  # fmt: skip
RECEIVES = frozenset({
    "read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg", "sendfile", "splice",
    "tee", "vmsplice", "accept", "accept4", "connect",
})  # fmt: skip
POLLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
MAKES = frozenset({"pipe", "pipe2", "socketpair", "eventfd", "eventfd2", "socket"})
COPIES = frozenset({"dup", "dup2", "dup3", "fcntl"})
SIGNALS = frozenset({"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"})
AWAITS_SIGNAL = frozenset({"rt_sigtimedwait", "rt_sigsuspend", "pause", "signalfd", "signalfd4"})
UNMAPS, MAPS = frozenset({"munmap", "mremap"}), frozenset({"mmap", "mremap"})
_ALL = (
    STARTS | FUTEX | SENDS | RECEIVES | POLLS | MAKES | COPIES | SIGNALS | AWAITS_SIGNAL | UNMAPS | MAPS
)  # fmt: skip
#: Of them, those that need nothing but their number and result.
_BY_NUMBER = STARTS | UNMAPS | MAPS | POLLS | AWAITS_SIGNAL


@dataclass(frozen=True)
class Call:
    """point: the sync point by which it enters the kernel. thread: whose it is. asked: its arguments, none
    where they are not needed. result: what it gave at once; None: its thread had to wait, or it never
    returned."""

    point: int
    thread: int
    name: str
    asked: tuple[int, ...]
    result: int | None


def calls_of(recording: Recording, points: Rows, threads: Threads) -> list[Call]:
    """The calls that order threads, in the order of `points` (SYNC_POINT (n,)). Raises FormatError,
    Divergence."""
    abi = linux_abi_of(isa_named(recording.manifest.isa))
    returned = _returned(recording)
    entered = _entered(points)
    found: dict[int, Call] = {}
    unknown: list[int] = []
    # Until there are two threads nothing can be out of order.
    begun = False
    for point in entered:
        core, count, who = (int(points[point][name]) for name in ("core", "count", "who"))
        number, result = returned.get((core, count), (None, None))
        name = "" if number is None else abi.calls.get(number, "")
        begun |= name in STARTS
        if name in _BY_NUMBER:
            found[point] = Call(point, who, name, (), result)
        elif (number is None and begun) or name in _ALL:
            unknown.append(point)
    for point, state in _asked(recording, points, unknown, threads):
        name = abi.calls.get(state.registers[abi.number] & 0xFFFFFFFF, "")
        if name in _ALL:
            asked = tuple(state.registers[one] for one in abi.arguments)
            _, result = returned.get((int(points[point]["core"]), int(points[point]["count"])), (None, None))
            found[point] = Call(point, int(points[point]["who"]), name, asked, result)
    return [found[point] for point in sorted(found)]


def _returned(recording: Recording) -> dict[tuple[int, int], tuple[int, int]]:
    """(number, result) of the calls that returned at once, by core and the count behind them."""
    found = {}
    for core in range(recording.manifest.n_cores):
        for rows, _ in iter_core_records(recording, core):
            calls = rows[(rows["kind"] == INPUT) & (rows["flags"] == INPUT_CALL)]
            for count, number, result in zip(
                calls["count"].tolist(), calls["addr"].tolist(), calls["value"].tolist(), strict=True
            ):
                found[core, count + 1] = number, result - (1 << 64) if result >> 63 else result
    return found


def _entered(points: Rows) -> list[int]:
    """The sync points by which a thread may enter the kernel for a call: the first at its place."""
    kept = np.flatnonzero((points["way"] & ENTER) != 0)
    kept = kept[points["count"][kept] > 0]
    keys = np.stack([points["core"][kept].astype(np.int64), points["count"][kept].astype(np.int64)], axis=1)
    _, first = np.unique(keys, axis=0, return_index=True)
    found: list[int] = np.sort(kept[first]).tolist()
    return found


def _asked(
    recording: Recording, points: Rows, wanted: list[int], threads: Threads
) -> list[tuple[int, CoreState]]:
    """(point, the core before its call) of those of `wanted` where a core comes to a call."""
    isa, found = isa_named(recording.manifest.isa), list[tuple[int, CoreState]]()
    decoder = decoder_of(isa)
    for core in range(recording.manifest.n_cores):
        mine = [point for point in wanted if int(points[point]["core"]) == core]
        if not mine:
            continue
        rows = np.zeros(len(mine), EVENT)
        rows["core"], rows["count"] = core, points["count"][mine] - np.uint64(1)
        same = threads.of(rows) == points["who"][mine]
        states = states_at(recording, core, rows["count"][same].tolist())
        for point, here in zip(mine, same.tolist(), strict=True):
            state = states.get(int(points[point]["count"]) - 1) if here else None
            if state is not None and decoder.disassemble(state.code, state.pc) == isa.system_call:
                found.append((point, state))
    return found
