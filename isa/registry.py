"""The instruction sets there are, by name."""

from __future__ import annotations

from corebraid.base.errors import UsageError
from isa.abi import LinuxAbi
from isa.call_stubs import CallStubs
from isa.frame_registers import FrameRegisters
from isa.table import Isa
from isa.x86_64.call_stubs import CALL_STUBS_X86_64
from isa.x86_64.frame_registers import FRAME_REGISTERS_X86_64
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64

_TABLES = {X86_64.name: X86_64}
_LINUX = {X86_64.name: LINUX_X86_64}
_FRAMES = {X86_64.name: FRAME_REGISTERS_X86_64}
#: By the name that pyelftools gives `e_machine`.
_CALL_STUBS = {X86_64.elf_machine: CALL_STUBS_X86_64}


def isa_named(name: str) -> Isa:
    """The table called `name`. Raises UsageError."""
    if name not in _TABLES:
        raise UsageError(
            "no such instruction set",
            expected=", ".join(sorted(_TABLES)),
            found=repr(name),
            remedy="a newer corebraid may know it",
        )
    return _TABLES[name]


def linux_abi_of(isa: Isa) -> LinuxAbi:
    """Linux's interface to programs of an instruction set that is here."""
    return _LINUX[isa.name]


def frame_registers_of(isa: Isa) -> FrameRegisters:
    """How debug information numbers the registers of an instruction set that is here."""
    return _FRAMES[isa.name]


def isa_of_machine(machine: int | None) -> Isa:
    """The table for ELF's `e_machine`. For none, or one that is not here, the first that is: its loader then
    says what it expects and what it found."""
    tables = list(_TABLES.values())
    return next((isa for isa in tables if isa.elf_machine_number == machine), tables[0])


def call_stubs_of(elf_machine: str) -> CallStubs | None:
    """What calls into libraries look like in ELF files for a machine; None: that is not known."""
    return _CALL_STUBS.get(elf_machine)
