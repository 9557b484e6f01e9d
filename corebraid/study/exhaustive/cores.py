"""The cores of a machine that runs firmware, as tasks that make steps."""

from __future__ import annotations

import numpy as np

from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import READ, UNCACHED
from corebraid.study.exhaustive.devices import uses_of_devices
from corebraid.study.exhaustive.tasks import Uses
from emu.board.firmware import Machine
from emu.schedule.stepped import BUFFER, core_of
from recorder.files.collectors import Rows


class Cores:
    """See `Tasks`. machine: runs step by step. A task's number is its core's."""

    def __init__(self, machine: Machine) -> None:
        assert machine.steps is not None
        self._machine = machine
        self.policy, self.doubts = machine.steps.policy, machine.steps.doubts
        #: Of each page whether code may run from it: that never changes.
        self._executable = machine.executable() != 0

    def core_of(self, task: int) -> int:
        """Itself, or the one whose store buffer it is."""
        return core_of(task)

    def stands_on(self, number: int) -> bool:
        """Whether the core does not wait for an interrupt."""
        return number in self._machine.runnable()

    def is_held(self, number: int) -> bool:
        """Whether it stands before an instruction that fails."""
        return self._machine.steps is not None and number in self._machine.steps.failing

    def living(self) -> set[int]:
        """Those that do not wait, and store buffers that were not empty."""
        waiting, holding = self.policy.left
        return set(self._machine.runnable()) - set(waiting) | {BUFFER + core for core in holding}

    def begin_step(self) -> None:
        """Nothing is known of it but what it does."""

    def time_passed(self) -> bool:
        """Each core has a time of its own."""
        return False

    def awaits_time(self) -> bool:
        """Timers are doubts already."""
        return False

    def uses(self, cores: Rows, agents: Rows) -> Uses:
        """Of the devices."""
        uncached = (cores["flags"] & np.uint8(UNCACHED)) != 0
        uses = uses_of_devices(cores[uncached])
        written = cores["addr"][(cores["kind"] != READ) & ~uncached] // np.uint64(PAGE_BYTES)
        if self._executable[written].any():
            uses.doubt = "memory that code may run from was changed: when others run it was not looked at"
        return uses
