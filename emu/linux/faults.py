"""Faults: what the processor refuses becomes a signal to the task that did it (sigaction(2))."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from unicorn import unicorn_const as uc

from corebraid.base.memory import PAGE_BYTES
from emu.core.core import Core
from emu.linux.ground.failure import Unsupported
from emu.linux.signals.info import SigInfo, Trap, fault
from emu.linux.signals.numbers import (
    BUS_ADRERR,
    SEGV_ACCERR,
    SEGV_MAPERR,
    SIGBUS,
    SIGSEGV,
)
from emu.native.state import CORE_AT
from isa.decoder import decoder_of

if TYPE_CHECKING:
    from emu.linux.tasks.task import Task

#: Unicorn's kinds of access.
WRITE_ACCESS, FETCH_ACCESS = 17, 18
#: Bits of a page fault's error code (SDM volume 3, 4.7): the page is there, a write, by user code, a fetch.
_PRESENT, _WRITE, _USER, _FETCH = 1, 2, 4, 16


def fault_address(core: Core, *, executed: bool) -> int:
    """The byte that a core was refused; the fill hook names only its page. executed: it was fetched."""
    page = core.words[CORE_AT.fault_address] & -PAGE_BYTES
    if executed:
        return core.pc if core.pc & -PAGE_BYTES == page else page
    context = core.context()
    code = core.memory[core.pc : core.pc + 16].tobytes()
    read = partial(core.isa.read, context)
    places = decoder_of(core.isa).accessed_addresses(code, core.pc, read)
    return next((place for place in places if place & -PAGE_BYTES == page), page)


@dataclass(frozen=True)
class Refused:
    """What a core was refused. vector: of the processor's exception, plus 1; 0 for none. access: Unicorn's
    kind of the access that a page was missing for; 0 for none. beyond: past the end of a mapped file. status:
    Unicorn's."""

    vector: int
    access: int
    beyond: bool
    status: int


def force(core: Core, task: Task, refused: Refused) -> None:
    """Send the signal that follows from it. Raises Unsupported: there is none."""
    vector, access, vectors = refused.vector, refused.access, core.isa.vectors
    if access and not vector:
        write, execute = access == WRITE_ACCESS, access == FETCH_ACCESS
        address = fault_address(core, executed=execute)
        mapped = task.process.space.mappings.at(address) is not None
        bad_access(task, address, mapped=mapped, write=write, execute=execute, beyond=refused.beyond)
    elif vector:
        core.forget_exception()
        # Interrupts are not for programs: `int` with any vector but those of faults is refused.
        exception(task, vector - 1 if vector <= vectors.faults else vectors.general_protection)
    elif refused.status == uc.UC_ERR_INSN_INVALID:
        exception(task, vectors.invalid_opcode)
    elif refused.status == uc.UC_ERR_OK:
        # hlt, which returns: a privileged instruction.
        exception(task, vectors.general_protection)
    else:
        raise Unsupported(f"the emulator failed with status {refused.status}")


def bad_access(
    task: Task,
    address: int,
    *,
    mapped: bool,
    write: bool = False,
    execute: bool = False,
    beyond: bool = False,
) -> None:
    """An access that the memory map refuses: SIGSEGV, with the task's program counter at the instruction.

    mapped: something is there, but not for this access. beyond: past the end of a mapped file (SIGBUS).
    """
    abi = task.process.abi.signals
    upper = address >> (abi.address_bits - 1)
    kernels = upper == (1 << 65 - abi.address_bits) - 1
    if upper and not kernels and abi.no_address is not None:
        exception(task, abi.no_address)
        return
    error = (
        _USER | (_PRESENT if mapped or kernels else 0) | (_WRITE if write else 0) | (_FETCH if execute else 0)
    )
    trap = Trap(abi.page_fault, error, address)
    if beyond:
        signal, code = SIGBUS, BUS_ADRERR
    else:
        signal, code = SIGSEGV, SEGV_ACCERR if mapped else SEGV_MAPERR
    task.process.signals.force(task, signal, fault(signal, code, address, trap))


def exception(task: Task, number: int, error: int = 0) -> None:
    """A processor exception other than a page fault. Raises Unsupported for one without a signal."""
    isa, row = task.process.isa, task.process.abi.signals.exceptions.get(number)
    if row is None:
        raise Unsupported(f"the guest caused processor exception {number}")
    # The address of the last bad access stays, as it does in the processor.
    trap = Trap(number, error, task.signals.trap.address)
    if not row.addressed:
        task.process.signals.force(task, row.signal, SigInfo(row.signal, row.code, trap=trap))
        return
    code = row.code or _float_code(task, number)
    pc = isa.read(task.registers, isa.program_counter)
    task.process.signals.force(task, row.signal, fault(row.signal, code, pc, trap))


def _float_code(task: Task, number: int) -> int:
    """si_code of a floating-point exception: the first that is raised and not masked."""
    isa, context, abi = task.process.isa, task.registers, task.process.abi.signals
    where = abi.float_status[number]
    raised = isa.read(context, where.raised) & ~(isa.read(context, where.masked) >> where.shift)
    return next((code for bits, code in abi.float_codes if raised & bits), 0)
