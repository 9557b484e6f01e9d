"""How long tasks have run, in modelled cycles."""

from __future__ import annotations

from collections.abc import Sequence

from emu.core.recorded import RecordedCore
from emu.linux.tasks.task import Task


class RunningTime:
    """What the tasks on some cores have yet to be charged for."""

    def __init__(self, cores: Sequence[RecordedCore]) -> None:
        self._cores, self._since = cores, [0] * len(cores)

    def begin(self, number: int) -> None:
        """What a core did until now is nobody's, or was charged."""
        self._since[number] = self._cores[number].cycles

    def charge(self, number: int, task: Task) -> None:
        """The task has run on the core since."""
        cycles = self._cores[number].cycles
        task.cycles += cycles - self._since[number]
        self._since[number] = cycles

    def charge_all(self, tasks: Sequence[Task | None]) -> None:
        """tasks: that of each core."""
        for number, task in enumerate(tasks):
            if task is not None:
                self.charge(number, task)
