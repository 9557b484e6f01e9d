"""A process with fake memory and a fake clock, for tests of signals."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

from fake_memory import FakeMemory

from emu.linux.ground.wait import Wait
from emu.linux.signals.info import SigInfo
from emu.linux.signals.numbers import SA_RESTORER, SA_SIGINFO, SI_USER, signal_set
from emu.linux.signals.of_process import Action, ProcessSignals
from emu.linux.signals.timers import Alarms
from emu.linux.tasks.process import Process
from emu.linux.tasks.task import Task
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64

BASE, SIZE = 0x10000, 0x20000
STACK = BASE + 0x18000
HANDLER, RESTORER, CODE = 0x401000, 0x402000, 0x400123
PID = 1234


class FakeClock:
    """Time that a test sets; 1970 is 1,000 s before the start."""

    def __init__(self) -> None:
        self.now = 5_000_000_000

    def monotonic(self) -> int:
        return self.now

    def realtime(self) -> int:
        return self.now + 1_000_000_000_000


def random_context(seed: int) -> bytes:
    """Registers with a value of their own each, as a running program may have them; x87 stack half used."""
    source, context = random.Random(seed), bytes(X86_64.context_bytes)
    for register in X86_64.registers:
        context = X86_64.with_register(context, register.name, source.getrandbits(8 * register.size))
    for n in range(8):
        value = (1 << 63 | source.getrandbits(63)) | (16383 + n) << 64
        context = X86_64.with_register(context, f"st{n}", value)
    fixed = {
        "rsp": STACK, "rip": CODE, "rflags": 0x8D7, "mxcsr": 0x9FC0, "fpcw": 0x27F, "fpsw": 4 << 11,
        # Top 4: physical registers 4 to 7 hold st0 to st3.
        "fptag": 0x00FF,
    }  # fmt: skip
    for name, value in fixed.items():
        context = X86_64.with_register(context, name, value)
    return context


def make_process(n_tasks: int = 1) -> Any:
    """A process with tasks PID, PID + 1, ..."""
    tasks: dict[int, Task] = {}
    signals = ProcessSignals(tasks, PID)
    process = SimpleNamespace(
        isa=X86_64, abi=LINUX_X86_64, pid=PID, name="guest", ids=(1000, 1000), memory=FakeMemory(SIZE, BASE),
        clock=FakeClock(), tasks=tasks, signals=signals, ended_cycles=0, alarms=None,
    )  # fmt: skip
    process.alarms = Alarms(signals, lambda: 10 * sum(task.cycles for task in tasks.values()))
    for n in range(n_tasks):
        tasks[PID + n] = Task(PID + n, cast(Process, process), random_context(n), 1)
    return process


def make_task() -> Task:
    """The only task of a process."""
    return cast(Task, make_process().tasks[PID])


def catch(task: Task, signal: int, flags: int = 0, mask: int = 0, handler: int = HANDLER) -> None:
    """Set a handler as a C library does."""
    action = Action(handler, flags | SA_RESTORER | SA_SIGINFO, RESTORER, mask)
    task.process.signals.set_action(signal, action)


def post(task: Task, signal: int, value: int = 0, to_process: bool = False) -> bool:
    """Send a signal with a value that tells it from others."""
    info = SigInfo(signal, SI_USER, bytes(8) + value.to_bytes(8, "little"))
    return task.process.signals.post(None if to_process else task, signal, info)


def register(task: Task, name: str) -> int:
    """A register's value."""
    return X86_64.read(task.registers, name)


def set_register(task: Task, name: str, value: int) -> None:
    """Change a register as a running program would."""
    task.context = X86_64.with_register(task.registers, name, value)


def taken(task: Task) -> list[tuple[int, int]]:
    """(signal, value) of all that the task takes, in order."""
    found = []
    while (info := task.process.signals.take(task)) is not None:
        found.append((info.signal, int.from_bytes(info.fields[8:16], "little")))
    return found


def block(task: Task, *signals: int) -> None:
    task.process.signals.set_blocked(task, signal_set(*signals))


def wait(task: Task) -> None:
    task.begin_wait(Wait((), None, "anything"))


def put_word(task: Task, address: int, value: int, size: int = 8) -> int:
    task.process.memory.write_number(address, size, value)
    return address
