"""Who looks on while a machine runs: a recorder, a controlled re-execution, a benchmark."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emu.board.stretch import Room


class Watcher:
    """Told what a machine does, as it happens; this one does not look."""

    def before_slice(self, total: int) -> str:
        """The next slice is about to be chosen. total: instructions of all cores so far. Returns why the run
        is to end here, or nothing."""
        return ""

    def bounded(self, length: int) -> int:
        """The length of the next slice, if it is not to be longer. length: instructions."""
        return length

    def room(self, total: int) -> Room | None:
        """Until when it need not be told more than `slices_ran`; None: it is to be told of every slice as it
        ends. total: as of `before_slice`."""
        return None

    def slices_ran(self, slices: NDArray[np.uint64]) -> None:
        """Slices have ended by their length: `emu.board.stretch.Ran`."""

    def drain(self, number: int) -> None:
        """A core's log must be emptied (`RecordedCore.take_log`)."""

    def ran(self, number: int, *, failed: bool) -> None:
        """A core has run for a while. failed: it ended with an instruction that does not retire."""

    def served(self) -> None:
        """The kernel has served a core in its slice."""

    def called(self, who: int, call: int) -> None:
        """A task has made a system call while there are several tasks."""

    def switched(self, number: int, flags: int, who: int) -> None:
        """The kernel has replaced a core's registers. flags: CONTEXT_*. who: the task."""

    def agents_moved(self) -> None:
        """Agents have accessed memory between slices."""

    def stores_committed(self) -> None:
        """Cores' stores may have left their buffers between slices."""

    def interrupted(self, number: int) -> None:
        """A core goes on in its interrupt handler."""

    def between_slices(self) -> None:
        """All that happens between two slices has happened."""
