"""Which thread of a Linux guest ran on a core, from the context headers of the core's log, and for which the
kernel worked, from the sync points of its own."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import CONTEXT
from corebraid.base.wording import another, shown
from emu.bus.sync_points import ENTER
from recorder.files.end import End
from recorder.files.reader import Recording, iter_core_records, sync_points

Rows = NDArray[np.void]

_MOST = np.uint64(0xFFFFFFFF)
#: Threads that a message lists.
_MOST_LISTED = 12


class _Core:
    """The context headers of one core's log, read as far as they are asked for."""

    def __init__(self, recording: Recording, core: int) -> None:
        self._frames = iter_core_records(recording, core)
        self._reached = -1
        self._counts: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._threads: NDArray[np.int64] = np.empty(0, np.int64)

    def at(self, counts: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The thread at each of `counts` (not empty): int64[n], 0 for none."""
        self._read_to(int(counts.max()))
        if not len(self._counts):
            return np.zeros(len(counts), np.int64)
        index = np.searchsorted(self._counts, counts, side="right").astype(np.int64) - 1
        found: NDArray[np.int64] = np.where(index < 0, 0, self._threads[np.maximum(index, 0)])
        return found

    def _read_to(self, count: int) -> None:
        """Read on until no further header can have a count up to `count`."""
        while self._reached <= count:
            rows, _ = next(self._frames, (None, None))
            if rows is None:
                return
            headers = rows[rows["kind"] == CONTEXT]
            self._counts = np.concatenate([self._counts, headers["count"]])
            self._threads = np.concatenate([self._threads, (headers["addr"] & _MOST).astype(np.int64)])
            self._reached = int(rows["count"][-1])


class Threads:
    """Threads of the Linux recording `recording`, by their number (TID)."""

    def __init__(self, recording: Recording) -> None:
        self._recording, self._n_cores = recording, recording.manifest.n_cores
        self._cores = [_Core(recording, core) for core in range(self._n_cores)]

    def of(self, rows: Rows, *, called: bool = True) -> NDArray[np.int64]:
        """The thread that made each of `rows` (EVENT[n]), or, where `called`, for which the kernel did:
        int64[n], 0 where it is not known.

        Raises FormatError.
        """
        found = np.zeros(len(rows), np.int64)
        for core in np.unique(rows["core"]).tolist():
            mine = rows["core"] == core
            if core < self._n_cores:
                found[mine] = self._cores[core].at(rows["count"][mine])
            elif called and core == self._n_cores:
                found[mine] = self._called(rows["count"][mine])
        return found

    @cached_property
    def _points(self) -> Rows:
        return sync_points(self._recording)

    def _called(self, numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The threads for which the kernel made accesses with these numbers."""
        points = self._points
        if not len(points):
            return np.zeros(len(numbers), np.int64)
        last = np.searchsorted(points["number"], numbers, side="right") - 1
        who = np.where(points["way"] == ENTER, points["who"], 0)[np.maximum(last, 0)]
        return np.where(last < 0, 0, who).astype(np.int64)


def threads_of(recording: Recording) -> Threads | None:
    """The threads of a Linux recording; firmware has none."""
    return Threads(recording) if recording.manifest.linux else None


def thread_name(end: End | None, thread: int) -> str:
    """'thread 1001', or 'thread 1001 (worker)' where it had a name of its own when the recording ended."""
    name = dict(end.names).get(thread) if end is not None else None
    return f"thread {thread} ({name})" if name else f"thread {thread}"


def thread_at(recording: Recording, core: int, count: int) -> int:
    """The thread on a core at an instruction count; 0: none, or it is not known. Raises FormatError."""
    threads = threads_of(recording)
    if threads is None:
        return 0
    row = np.zeros(1, EVENT)
    row["core"], row["count"] = core, count
    return int(threads.of(row)[0])


def thread_named(recording: Recording, text: str) -> int:
    """The thread that is called `text`: its number, or a name that it has when the recording ends. Raises
    UsageError if there is none, or several of that name; FormatError."""
    manifest = recording.manifest
    where = str(recording.path)
    if not manifest.linux:
        raise UsageError("firmware has no threads", found=shown(text), where=where, remedy=another("core"))
    names = dict(manifest.end.names) if manifest.end is not None else {}
    named = sorted(tid for tid, name in names.items() if name == text)
    every = all_threads(recording)
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) in every:
        return int(text)
    if len(named) > 1:
        listed = ", ".join(map(str, named[:_MOST_LISTED]))
        raise UsageError(
            "several threads of that name", expected=f"one of {listed}", found=shown(text), where=where,
            remedy="give the number of one",
        )  # fmt: skip
    if not named:
        told = [f"{tid} ({names[tid]})" if tid in names else str(tid) for tid in every[:_MOST_LISTED]]
        more = " and more" if len(every) > _MOST_LISTED else ""
        raise UsageError(
            "no such thread", expected=f"one of {', '.join(told)}{more}", found=shown(text), where=where,
            remedy=another("thread"),
        )  # fmt: skip
    return named[0]


def cores_of_threads(recording: Recording) -> dict[int, set[int]]:
    """The threads that ever ran on a core, and on which. Raises FormatError."""
    found: dict[int, set[int]] = {}
    for core in range(recording.manifest.n_cores):
        for rows, _ in iter_core_records(recording, core):
            headers = rows["addr"][rows["kind"] == CONTEXT] & _MOST
            for thread in np.unique(headers).tolist():
                found.setdefault(thread, set()).add(core)
    found.pop(0, None)
    return found


def all_threads(recording: Recording) -> list[int]:
    """The threads that ever ran on a core, ascending. Raises FormatError."""
    return sorted(cores_of_threads(recording))
