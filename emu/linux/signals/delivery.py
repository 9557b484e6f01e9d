"""Delivery: what happens to a task's pending signals when it is about to return to user mode.

Sources: signal(7); Linux's arch/x86/kernel/signal.c (arch_do_signal_or_restart, handle_signal).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Protocol

from emu.linux.ground.failure import Errno
from emu.linux.ground.words import unsigned
from emu.linux.signals.frame import FrameProcess, FrameTask, push_frame
from emu.linux.signals.info import SigInfo
from emu.linux.signals.numbers import (
    DUMPING,
    HARMLESS,
    SA_NODEFER,
    SA_RESETHAND,
    SA_RESTART,
    SI_KERNEL,
    SIG_DFL,
    SIG_IGN,
    SIGCONT,
    SIGSEGV,
    STOPPING,
    signal_name,
    signal_set,
)
from emu.linux.signals.of_process import Action, ProcessSignals
from emu.linux.signals.receiver import Receiver


class SignalledProcess(FrameProcess, Protocol):
    """What delivery needs of the process."""

    @property
    def signals(self) -> ProcessSignals:
        """Actions, and signals that are pending for all of it."""


class Signalled(Receiver, FrameTask, Protocol):
    """A task that handles signals."""

    @property
    def process(self) -> SignalledProcess:
        """The process that it is of."""

    def set_registers(self, context: bytes) -> None:
        """Replace all registers."""


@dataclass(frozen=True)
class Death:
    """The process ends by a signal. core: the default action would write a core dump. address: of the bad
    access that it is for."""

    signal: int
    core: bool
    address: int | None = None

    def __str__(self) -> str:
        where = "" if self.address is None else f" at address {self.address:#x}"
        return f"killed by {signal_name(self.signal)}{where}"


@dataclass(frozen=True)
class Interruption:
    """A blocking call that a signal has broken off. restart, always: see `Interrupted`."""

    call_number: int
    restart: bool
    always: bool = False


def deliver(task: Signalled, interrupted: Interruption | None = None) -> Death | None:
    """Deliver all that the task would take: its registers are then those of the last handler to start.

    interrupted: the call to begin anew or to fail with EINTR; the registers are those after its instruction.
    Returns how the process ends, if it does.
    """
    signals = task.process.signals
    handled = False
    if signals.fatal is not None:
        return Death(signals.fatal.signal, False)
    while (info := _next(task)) is not None:
        action, bit = signals.action(info.signal), signal_set(info.signal)
        if action.handler == SIG_IGN or (action.handler == SIG_DFL and bit & HARMLESS):
            continue
        if action.handler == SIG_DFL and bit & STOPPING:
            signals.post(None, SIGCONT)
            continue
        if action.handler == SIG_DFL:
            return Death(info.signal, bool(bit & DUMPING), info.fault_address)
        if interrupted is not None:
            _end_call(task, interrupted, bool(action.flags & SA_RESTART))
            interrupted = None
        handled = _start_handler(task, action, info) or handled
    if interrupted is not None:
        _end_call(task, interrupted, True)
    if not handled:
        signals.end_mask(task)
    return None


def _next(task: Signalled) -> SigInfo | None:
    """The next signal that the task takes. What the processor says comes where there is no other one."""
    signals, barred = task.process.signals, task.signals.barred
    info = signals.take(task)
    if info is None and barred is not None:
        task.signals.barred = None
        row = task.process.abi.signals.exceptions[barred.number]
        signals.force(task, row.signal, SigInfo(row.signal, row.code, trap=barred))
        info = signals.take(task)
    return info


def _end_call(task: Signalled, broken: Interruption, may_restart: bool) -> None:
    """The broken-off call begins anew when the task goes on, or it has failed."""
    isa, abi = task.process.isa, task.process.abi
    context = task.registers
    if broken.restart and (may_restart or broken.always):
        pc = isa.read(context, isa.program_counter) - abi.instruction_bytes
        context = isa.with_register(context, isa.program_counter, pc)
        result = broken.call_number
    else:
        result = unsigned(-errno.EINTR)
    # On x86-64 one register holds number and result; elsewhere the number is still in its own.
    task.set_registers(isa.with_register(context, abi.result, result))


def _start_handler(task: Signalled, action: Action, info: SigInfo) -> bool:
    """Put the frame onto the stack. False: there is no room, which is a fault of its own."""
    signals, signal = task.process.signals, info.signal
    if action.flags & SA_RESETHAND:
        signals.reset_action(signal)
    own = task.signals
    mask = own.blocked if own.restore_mask is None else own.restore_mask
    try:
        context = push_frame(task, action, info, mask)
    except Errno:
        if signal == SIGSEGV:
            signals.reset_action(signal)
        signals.force(task, SIGSEGV, SigInfo(SIGSEGV, SI_KERNEL))
        return False
    task.set_registers(context)
    own.frames.append(task.process.isa.read(context, task.process.isa.stack_pointer))
    own.restore_mask = own.barred = None
    while_handled = action.mask | (0 if action.flags & SA_NODEFER else signal_set(signal))
    signals.set_blocked(task, own.blocked | while_handled)
    return True
