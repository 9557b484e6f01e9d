"""A guest that was booted and never runs: its kernel takes calls by name, over real guest memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from cli_factory import ROOT

from corebraid.base.memory import ADDRESS_SPACE
from emu.board.watcher import Watcher
from emu.core.surroundings import KERNEL
from emu.linux.boot import GuestSpec, boot
from emu.linux.ground.wait import Reason
from emu.linux.machine import LinuxMachine
from emu.linux.tasks.task import State
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.machine import machine_config
from recorder.capture.options import RecordOptions

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
NUMBERS = {name: number for number, name in LINUX_X86_64.calls.items()}
ROOM_BYTES = 1 << 16
MASK = (1 << 64) - 1


def open_descriptors() -> list[str]:
    """What this process has open, as /proc names it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return sorted(found)


def hello_spec(memory: int = 512 << 20, **options: object) -> GuestSpec:
    """A small static program, with these `LinuxOptions`."""
    chosen = LinuxOptions(system=False, **options)  # type: ignore[arg-type]
    return guest_spec(PROGRAMS / "static_hello", "hello", (), memory, b"some input", chosen)


class BootedGuest:
    """room: 64 KiB of guest memory to use at will. said: what it printed."""

    def __init__(self, spec: GuestSpec, seed: int = 0) -> None:
        options = RecordOptions(cores=2, seed=seed, memory_bytes=ADDRESS_SPACE)
        self.said = bytearray()
        machine = LinuxMachine(machine_config(options, False, KERNEL), X86_64, Watcher())
        self.guest = boot(
            machine, LINUX_X86_64, spec, self.said.extend, self.said.extend, lambda: machine.take_agent_rows()
        )
        machine.boot(self.guest)
        self.machine, self.process, self.kernel = machine, self.guest.process, self.guest.kernel
        self.task = next(iter(self.process.tasks.values()))
        self.guest.facts.caller = self.task
        self._registers = machine.cores[0].context()
        self.room = self.call("mmap", 0, ROOM_BYTES, 3, 0x22, -1, 0)

    def close(self) -> None:
        """Let go of host files."""
        self.process.descriptors.close_all()
        self.process.filesystem.close()

    def call(self, name: str, *arguments: int, answer: Callable[[], Reason] = lambda: Reason.TIMEOUT) -> int:
        """Its result, a failure as a negative number. answer: why a wait ends. Raises Unsupported, Exit."""
        task = self.task
        task.context, task.changed, task.fetch, task.state = self._registers, False, None, State.RUNNABLE
        padded = tuple(value & MASK for value in (*arguments, *([0] * (6 - len(arguments)))))
        result = self.kernel.call(task, NUMBERS[name], padded)
        for _ in range(5):
            if result is not None or task.call is None:
                break
            task.end_wait(answer())
            result = self.kernel.resume(task)
        if task.call is not None:
            task.call.close()
            task.call, task.state = None, State.RUNNABLE
        return -errno.EINTR if result is None else result

    def path(self, name: str | bytes, at: int = 0) -> int:
        """The address of a path in the room."""
        data = os.fsencode(name)
        self.process.memory.write(self.room + at, data + b"\0")
        return self.room + at

    def put(self, data: bytes, at: int = 0) -> int:
        """The address of bytes in the room."""
        self.process.memory.write(self.room + at, data)
        return self.room + at


def tree(place: Path) -> dict[str, bytes | None]:
    """Every file below a host directory with its bytes; None for directories."""
    return {
        str(path.relative_to(place)): path.read_bytes() if path.is_file() else None
        for path in sorted(place.rglob("*"))
    }
