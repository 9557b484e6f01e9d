"""How long the kernel of a Linux guest has nothing to do unless it is called."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from emu.board.stretch import NEVER, Calm
from emu.linux.ground.clock import VirtualClock
from emu.linux.kernel import Kernel
from emu.linux.tasks.process import Process
from emu.linux.tasks.run_queue import RunQueue


class Calming(Protocol):
    """What is looked at of the machine, see `emu.linux.machine.LinuxMachine`."""

    #: `Calm.words`.
    stratum_wanted: NDArray[np.uint64]
    kernel: Kernel
    process: Process
    queue: RunQueue


def calm_of(machine: Calming) -> Calm | None:
    """Until a task may have to give up its core, or something happens at its time; None where that is not
    known beforehand: by the host's clock, after some running time of a task, or by ranks of those that wait
    for a core."""
    process, queue = machine.process, machine.queue
    if not isinstance(process.clock, VirtualClock) or process.alarms.measures_tasks:
        return None
    if queue.rank is not None and len(queue):
        return None
    deadline = machine.kernel.next_deadline()
    clock = NEVER if deadline is None else max(0, process.clock.cycle_of(deadline))
    return Calm(machine.stratum_wanted, [count or NEVER for count in queue.turns_end()], clock)
