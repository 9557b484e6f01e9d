"""What one instruction set needs of the emulator beside its table in `isa`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import unicorn

from corebraid.base.compiled import CFunction
from isa.table import Isa


class InstructionHook(NamedTuple):
    """A hook that the emulator calls in place of an instruction. instruction: Unicorn's number of that."""

    instruction: int
    callback: CFunction


@dataclass(frozen=True)
class NativeIsa:
    """new_engine: makes an emulator of its processor, of an `Isa.revision`. register_number: Unicorn's number
    of a register of the ISA's table. plain_block: decodes blocks of plain instructions
    (`emu.native.unicorn.PLAIN_BLOCK`), None: all are left to the ISA's decoder. pair: runs before each of
    `Block.pairs`. fence_gone: runs first of all before each of `Block.fences`, under TSO, and stops the core
    if another instruction stands there.

    load_coprocessor: has blocks that are translated from now on compute `Block.coprocessor` as they should.
    unlisted: Unicorn's numbers of registers that a context header does not hold and an instruction may store.
    place_memory: an emulator's memory lies at an address of this process, so many bytes, and its core's row
    at another.
    run_programs: programs of an operating system run on an emulator from now on, of an `Isa.revision`.
    try_stores: an emulator makes no part of a store from now on that fails in another part; without that a
    hook on its accesses is needed to take the first part back.
    watch: an emulator tells the core whose row lies at an address of this process of its accesses to watched
    pages. Raises CorebraidError. locate: the name of the emulator's function that finds which instruction
    makes an access; where a core's row has its address that waits until it is asked. forget_page: the name of
    the emulator's function that forgets one page that a processor has filled. tlb: where a new emulator can
    be told how large its TLB is to be (`emu.native.tlb.descriptions`), 0 if nowhere. tlb_modes: of a
    processor, each of which has one.
    fault_code: the error code of the exception that the emulator has just raised.
    settle_coprocessor: an emulator's registers are those at the end of its last instruction, which it may
    still have to be told of. show_coprocessor: a context header of the ISA, changed in place, has its words
    as a program sees them.
    approximated: which of `Isa.approximations` an emulator was asked for, a bit each. due: what the exception
    that an instruction failed with changes in registers, 0 for nothing. deliver: changes it.

    The others are hooks on single instructions. recorded, replayed: on those that every core has and whose
    answers are logged. unserved_calls: on system calls where there is no kernel. calls, replayed_calls: on
    what a Linux guest asks of its kernel or learns of its processor.
    """

    new_engine: Callable[[int], unicorn.Uc]
    register_number: Callable[[str], int]
    plain_block: CFunction | None
    pair: CFunction
    fence_gone: CFunction
    load_coprocessor: Callable[[], None]
    unlisted: tuple[int, ...]
    place_memory: Callable[[unicorn.Uc, int, int, int], None]
    run_programs: Callable[[unicorn.Uc, int], None]
    try_stores: Callable[[unicorn.Uc], None]
    watch: Callable[[unicorn.Uc, int], None]
    locate: str
    forget_page: str
    tlb: Callable[[unicorn.Uc], int]
    tlb_modes: int
    fault_code: Callable[[unicorn.Uc], int]
    settle_coprocessor: Callable[[unicorn.Uc], None]
    show_coprocessor: Callable[[Isa, memoryview], None]
    approximated: Callable[[unicorn.Uc], int]
    due: Callable[[unicorn.Uc], int]
    deliver: Callable[[unicorn.Uc, int], None]
    recorded: tuple[InstructionHook, ...]
    replayed: tuple[InstructionHook, ...]
    unserved_calls: tuple[InstructionHook, ...]
    calls: tuple[InstructionHook, ...]
    replayed_calls: tuple[InstructionHook, ...]
