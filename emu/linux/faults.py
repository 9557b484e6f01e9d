"""Faults: what the processor refuses becomes a signal to the task that did it (sigaction(2))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from unicorn import unicorn_const as uc

from corebraid.base.memory import PAGE_BYTES
from emu.board.faults import FETCH_ACCESS, WRITE_ACCESS
from emu.core.core import Core
from emu.linux.ground.failure import Unsupported
from emu.linux.ground.words import unsigned
from emu.linux.signals.info import SigInfo, Trap, fault
from emu.linux.signals.numbers import (
    BUS_ADRERR,
    SEGV_ACCERR,
    SEGV_MAPERR,
    SIGBUS,
    SIGSEGV,
)
from emu.native.state import CORE_AT
from isa.abi_signals import SignalAbi
from isa.decoded import Access
from isa.decoder import fault_decoder_of

if TYPE_CHECKING:
    from emu.linux.tasks.task import Task

#: Bits of a page fault's error code (SDM volume 3, 4.7): the page is there, a write, by user code, a fetch.
_PRESENT, _WRITE, _USER, _FETCH = 1, 2, 4, 16


def _code(core: Core) -> bytes:
    return core.memory[core.pc : core.pc + 16].tobytes() if core.pc < len(core.memory) else b""


def refused_access(core: Core, access: int, may_write: Callable[[int], bool]) -> Access:
    """What a core was refused; the fill hook names only its page. access: Unicorn's kind of it. may_write:
    whether the page of an address is one that may be written."""
    page = core.words[CORE_AT.fault_address] & -PAGE_BYTES
    written = access == WRITE_ACCESS
    if access == FETCH_ACCESS:
        address = core.pc if core.pc & -PAGE_BYTES == page else page
        return Access(address, 1, written=False, stack=False)
    read = partial(core.isa.read, core.context())
    for found in fault_decoder_of(core.isa).accesses(_code(core), core.pc, read):
        if written and not found.written:
            continue
        if found.address & -PAGE_BYTES == page:
            return found
        if (found.address + found.size - 1) & -PAGE_BYTES == page:
            if found.written and not may_write(found.address):
                # Of what is read to be written the first page that may not be written comes first.
                return found
            return replace(found, address=page, size=1)
    return Access(page, 1, written=written, stack=False)


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
    vector, vectors = refused.vector, core.isa.vectors
    if refused.access and not vector:
        _refuse_access(core, task, refused)
    elif vector:
        number, error = vector - 1, core.forget_exception()
        if (what := dict(core.isa.refusals).get(number)) is not None:
            raise Unsupported(what)
        abi = task.process.abi.signals
        if number == abi.debug and not _is_address(abi, core.pc):
            # A branch that the processor refuses is no step.
            _go_back(core, task)
            number = vectors.general_protection
        # Interrupts are not for programs: `int` with any vector but those of faults is refused.
        exception(task, number if number < vectors.faults else vectors.general_protection, error)
    elif refused.status == uc.UC_ERR_INSN_INVALID:
        if not _asked_for_debugger(core, task):
            exception(task, vectors.invalid_opcode)
    elif refused.status == uc.UC_ERR_OK:
        # hlt, which returns: a privileged instruction.
        exception(task, vectors.general_protection)
    else:
        raise Unsupported(f"the emulator failed with status {refused.status}")


def _asked_for_debugger(core: Core, task: Task) -> bool:
    """Whether the program did, by an instruction that the emulator does not know; it is over then."""
    abi, isa = task.process.abi.signals, core.isa
    length = fault_decoder_of(isa).length_of_trap(_code(core), core.pc)
    if length:
        pc = core.pc + length
        task.set_registers(isa.with_register(task.registers, isa.program_counter, pc))
        trap = Trap(abi.debug, 0, task.signals.trap.address)
        task.process.signals.force(
            task, abi.asked_debug.signal, fault(abi.asked_debug.signal, abi.asked_debug.code, pc, trap)
        )
    return length > 0


def _is_address(abi: SignalAbi, address: int) -> bool:
    """Whether the bits above those of an address repeat its highest."""
    upper = address >> (abi.address_bits - 1)
    return upper in (0, (1 << 65 - abi.address_bits) - 1)


def _refuse_access(core: Core, task: Task, refused: Refused) -> None:
    space = task.process.space
    place, execute = refused_access(core, refused.access, space.may_write), refused.access == FETCH_ACCESS
    if execute and not _is_address(task.process.abi.signals, place.address):
        _go_back(core, task)
    mapped = space.mappings.at(place.address) is not None
    present = mapped and space.is_there(place.address)
    bad_access(task, place, mapped=mapped, present=present, execute=execute, beyond=refused.beyond)


def bad_access(
    task: Task,
    place: Access,
    *,
    mapped: bool,
    present: bool = False,
    execute: bool = False,
    beyond: bool = False,
) -> None:
    """An access that the memory map refuses: SIGSEGV, with the task's program counter at the instruction.

    mapped: something is there, but not for this access. present: its page is known to the processor. beyond:
    past the end of a mapped file (SIGBUS).
    """
    abi = task.process.abi.signals
    last = unsigned(place.address + place.size - 1)
    number = abi.no_stack if place.stack else abi.no_address
    if number is not None and not (_is_address(abi, place.address) and _is_address(abi, last)):
        exception(task, number)
        return
    error = _USER | (_PRESENT if present or place.address >= abi.program_end else 0)
    error |= (_WRITE if place.written else 0) | (_FETCH if execute else 0)
    trap = Trap(abi.page_fault, error, place.address, retried=True)
    if beyond:
        signal, code = SIGBUS, BUS_ADRERR
    else:
        signal, code = SIGSEGV, SEGV_ACCERR if mapped else SEGV_MAPERR
    task.process.signals.force(task, signal, fault(signal, code, place.address, trap))


def _go_back(core: Core, task: Task) -> None:
    """To the branch that leads to where no address is: the processor refuses the branch, not what it finds
    there (SDM volume 2, JMP, CALL, RET)."""
    isa, address = core.isa, core.blocks.last_instruction()
    if address is None:
        return
    came_by = fault_decoder_of(isa).branch(core.memory[address : address + 16].tobytes(), address)
    if came_by is None:
        return
    context = task.registers
    pointer = unsigned(isa.read(context, isa.stack_pointer) - came_by.stack)
    context = isa.with_register(context, isa.stack_pointer, pointer)
    task.set_registers(isa.with_register(context, isa.program_counter, address))


def exception(task: Task, number: int, error: int = 0) -> None:
    """A processor exception other than a page fault. Raises Unsupported for one without a signal."""
    isa, abi = task.process.isa, task.process.abi.signals
    row = abi.exceptions.get(number)
    if row is None:
        raise Unsupported(f"the guest caused processor exception {number}")
    # The address of the last bad access stays, as it does in the processor.
    trap = Trap(number, error, task.signals.trap.address, retried=number not in abi.traps)
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
