"""The signal frame: a task's registers put onto its stack for a handler, and taken back from there.

Sources: Linux's arch/x86/kernel/signal.c (get_sigframe), signal_64.c (x64_setup_rt_frame, rt_sigreturn).
"""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import NamedTuple, Protocol

from emu.linux.ground.failure import Errno
from emu.linux.ground.guest_memory import GuestMemory
from emu.linux.ground.words import unsigned
from emu.linux.signals.float_image import float_image, initial_floats, read_image, with_floats
from emu.linux.signals.info import INFO_BYTES, SigInfo, Trap
from emu.linux.signals.numbers import SA_ONSTACK, SA_RESTORER, SS_AUTODISARM, SS_DISABLE
from emu.linux.signals.of_process import Action
from emu.linux.signals.of_task import AlternateStack, TaskSignals
from emu.linux.signals.selectors import refused_selectors
from isa.abi import LinuxAbi
from isa.table import Isa


class FrameProcess(Protocol):
    """What a frame needs of the process."""

    @property
    def isa(self) -> Isa:
        """Its instruction set."""

    @property
    def abi(self) -> LinuxAbi:
        """How that is used under Linux."""

    @property
    def memory(self) -> GuestMemory:
        """Its memory."""


class FrameTask(Protocol):
    """What a frame needs of a task."""

    @property
    def process(self) -> FrameProcess:
        """The process that it is of."""

    @property
    def signals(self) -> TaskSignals:
        """Its mask, its pending signals and its alternate stack."""

    @property
    def registers(self) -> bytes:
        """All its registers (`Isa.registers`)."""


def push_frame(task: FrameTask, action: Action, info: SigInfo, mask: int) -> bytes:
    """Write the frame for a handler; returns the registers that it starts with.

    mask: what the return restores. Raises Errno(EFAULT): there is no room, or no way to return.
    """
    isa, frame = task.process.isa, task.process.abi.signals.frame
    context = task.registers
    if not action.flags & SA_RESTORER:
        raise Errno(errno.EFAULT)
    address, floats = _place(task, action)
    raw = bytearray(frame.layout.size)
    fields = _fields(task, action, mask, floats)
    trap = info.trap or task.signals.barred
    if trap is not None:
        fields |= dict(trap.shown)
    for name, value in fields.items():
        _put(raw, *frame.layout.fields[name], value)
    for name, offset in frame.registers.items():
        _put(raw, offset, 8, isa.read(context, name))
    if trap is not None and trap.retried:
        offset, flag = frame.registers[isa.flags_register], task.process.abi.signals.fault_flag
        _put(raw, offset, 8, isa.read(context, isa.flags_register) | flag)
    raw[frame.info : frame.info + INFO_BYTES] = info.pack()
    task.process.memory.write(floats, float_image(isa, frame.floats, context))
    task.process.memory.write(address, bytes(raw))
    if task.signals.stack.flags & SS_AUTODISARM:
        task.signals.stack = AlternateStack(flags=SS_DISABLE)
    return _entry(task, action, info.signal, address)


class Returned(NamedTuple):
    """What a frame holds. refused: its floating-point registers cannot be read, or are such as the processor
    would not take; they are those that a program starts with then, and the others the frame's. trap: what
    the processor has to say of its selectors."""

    context: bytes
    mask: int
    stack: AlternateStack
    refused: bool
    trap: Trap | None


def pop_frame(task: FrameTask) -> Returned:
    """The frame at the stack pointer.

    What a program must not set is taken from the present registers. Raises Errno(EFAULT): no frame is there;
    Unsupported.
    """
    isa, frame, memory = task.process.isa, task.process.abi.signals.frame, task.process.memory
    context = task.registers
    address = unsigned(isa.read(context, isa.stack_pointer) - frame.returned)
    raw = memory.read(address, frame.layout.size)
    fields = frame.layout.unpack(raw)
    for name, offset in frame.registers.items():
        value = int.from_bytes(raw[offset : offset + 8], "little")
        if name == isa.flags_register:
            kept = isa.read(context, name) & ~frame.restored_flags
            value = kept | (value & frame.restored_flags)
        context = isa.with_register(context, name, value)
    context, refused = initial_floats(isa, frame.floats, context), False
    if fields["fpstate"]:
        try:
            image = read_image(memory, frame.floats, fields["fpstate"])
            context = with_floats(isa, frame.floats, context, image)
        except Errno:
            # What the system call returns then.
            context, refused = isa.with_register(context, frame.result, 0), True
    stack = AlternateStack(fields["ss_sp"], fields["ss_size"], fields["ss_flags"])
    trap = refused_selectors(frame, fields, isa.vectors.general_protection)
    if trap is not None:
        flags = int.from_bytes(raw[frame.registers[isa.flags_register] :][:8], "little")
        retried = bool(flags & task.process.abi.signals.fault_flag)
        trap = replace(trap, address=task.signals.trap.address, retried=retried)
    return Returned(context, fields["mask"], stack, refused, trap)


def _place(task: FrameTask, action: Action) -> tuple[int, int]:
    """Where the frame and its floating-point image go: on the alternate stack if the handler asks for it."""
    isa, frame, stack = task.process.isa, task.process.abi.signals.frame, task.signals.stack
    pointer = isa.read(task.registers, isa.stack_pointer)
    nested = stack.in_use(pointer)
    pointer -= isa.red_zone
    entering = bool(action.flags & SA_ONSTACK and stack.state(pointer) == 0)
    if entering:
        pointer = stack.base + stack.size
    floats = (pointer - frame.floats.size) // frame.floats.alignment * frame.floats.alignment
    boundary, below = frame.alignment
    address = (floats - frame.layout.size) // boundary * boundary - below
    # The frame would leave the alternate stack: better none than one over what lies below.
    if address < 0 or ((nested or entering) and not stack.spans(address)):
        raise Errno(errno.EFAULT)
    return address, floats


def _fields(task: FrameTask, action: Action, mask: int, floats: int) -> dict[str, int]:
    """The frame's fields, by name."""
    stack, trap = task.signals.stack, task.signals.trap
    return {
        **task.process.abi.signals.frame.constants,
        "return_address": action.restorer,
        "ss_sp": stack.base,
        "ss_flags": stack.flags,
        "ss_size": stack.size,
        "fault_trap": trap.number,
        "fault_code": trap.error,
        "fault_address": trap.address,
        "old_mask": mask,
        "mask": mask,
        "fpstate": floats,
    }


def _entry(task: FrameTask, action: Action, signal: int, address: int) -> bytes:
    """The registers at the handler's first instruction."""
    isa, frame = task.process.isa, task.process.abi.signals.frame
    context = task.registers
    flags = isa.read(context, isa.flags_register) & ~frame.cleared_flags
    values = (signal, address + frame.info, address + frame.context)
    context = initial_floats(isa, frame.floats, context)
    context = _with(isa, context, dict(zip(frame.arguments, values, strict=True)))
    return _with(
        isa,
        context,
        {
            frame.result: 0,
            isa.flags_register: flags,
            isa.stack_pointer: address,
            isa.program_counter: action.handler,
        },
    )


def _with(isa: Isa, context: bytes, values: dict[str, int]) -> bytes:
    for name, value in values.items():
        context = isa.with_register(context, name, value)
    return context


def _put(raw: bytearray, offset: int, size: int, value: int) -> None:
    raw[offset : offset + size] = value.to_bytes(size, "little")
