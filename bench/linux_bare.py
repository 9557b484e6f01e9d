"""The yardstick for Linux programs: the same kernel and address space over an emulator without the recorder.

One core has home memory as its own, and only the hooks without which a program does not run: page fills,
system calls, CPUID, RDTSC and exceptions. There is no hook on blocks or memory, so nothing is counted and
nothing is logged, and a task keeps the core until it waits, yields or ends: a program that spins for another
task hangs here. The instruction stream is about that of a recording with one core, which supplies the count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from corebraid.base.errors import CorebraidError
from corebraid.base.memory import ADDRESS_SPACE, PAGE_BYTES
from emu.board.board import Stopped
from emu.board.config import MachineConfig
from emu.board.run import run
from emu.board.watcher import Watcher
from emu.core.core import Core
from emu.core.line_bus import LineBus
from emu.core.surroundings import KERNEL
from emu.linux.boot import GuestSpec, Sink, boot
from emu.linux.machine import LinuxMachine
from emu.native.state import PADDED, address_of
from emu.schedule.policy import Scheduler, Slice
from emu.schedule.scheduler import RoundRobin
from isa.abi import LinuxAbi
from isa.table import Isa
from recorder.capture.machine import machine_config
from recorder.capture.options import RecordOptions

#: No slice ends by its length.
_FOR_EVER = 1 << 62
#: System calls that one task makes before others are looked at.
_CALLS = 64


class NoBus(LineBus):
    """Memory that one core has as its own: no hooks on blocks and accesses."""

    def connect(self, core: Core, *, tapped: bool) -> None:
        """Nothing is asked of it."""


class BareMachine(LinuxMachine):
    """One core on no bus, and the kernel."""

    def __init__(self, config: MachineConfig, isa: Isa) -> None:
        super().__init__(config, isa, Watcher())
        self._core = self.cores[0]
        # Home memory and the core's are the same, so its code pages need no padding.
        self.home = self._core.memory
        self.state["home"] = address_of(self.home)
        self._core.page_flags[:] = PADDED
        # Calls are noted at the count before.
        self._core.row["count"] = 1

    def _make_bus(self) -> NoBus:
        return NoBus(self.machine_rows, self.core_rows, self.home, self.config.cache)

    def boot(self, guest: Any) -> None:
        """As in any Linux machine. What the kernel puts into pages may have been executed before."""
        super().boot(guest)
        fill = guest.process.space.fill

        def fill_and_forget(address: int, data: bytes) -> None:
            fill(address, data)
            self._core.forget_code(address, address + PAGE_BYTES)

        guest.process.space.fill = fill_and_forget

    def turn(self, piece: Slice, length: int, scheduler: Scheduler) -> None:
        """Run the task, its calls and pages served, until others are to be looked at."""
        task = self.queue.current[0]
        for _ in range(_CALLS):
            if self.run_slice(0, _FOR_EVER, exact=False) is not Stopped.KERNEL:
                break
            self.serve(0)
            self._core.take_log()
            if self.ended() or self.queue.current[0] is not task or (task and task.yields):
                break


@dataclass(frozen=True)
class BareLinuxRun:
    """Processor seconds of the run alone, and how the guest ended."""

    run: float
    exit_code: int | None
    calls: int


def run_bare_linux(spec: GuestSpec, isa: Isa, abi: LinuxAbi, output: Sink, error: Sink) -> BareLinuxRun:
    """Run a Linux program on the bare emulator. Raises CorebraidError if it fails there."""
    options = RecordOptions(cores=1, seed=1, memory_bytes=ADDRESS_SPACE)
    machine = BareMachine(machine_config(options, False, KERNEL), isa)

    def drop() -> None:
        machine.state["agent_n"] = 0

    guest = boot(machine, abi, spec, output, error, drop)
    began = time.process_time()
    machine.boot(guest)
    reason, _ = run(machine, RoundRobin(_FOR_EVER))
    seconds = time.process_time() - began
    if reason == "deadlock":
        raise CorebraidError("the program waits for ever on the bare emulator")
    if machine.fault is not None:
        raise CorebraidError(f"the guest failed on the bare emulator: {machine.fault.what}")
    return BareLinuxRun(seconds, guest.process.exit_code, guest.kernel.calls_made)


__all__ = ["BareLinuxRun", "run_bare_linux"]
