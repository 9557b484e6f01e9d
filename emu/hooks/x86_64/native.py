"""x86-64 to the emulator: its processor model, its registers' numbers, its hooks."""

from __future__ import annotations

import ctypes

import unicorn
from unicorn import unicorn_const as uc
from unicorn import x86_const as x86

from corebraid.base.host_memory import check_room
from emu.hooks.call import on_unserved_call
from emu.hooks.native_isa import InstructionHook, NativeIsa
from emu.hooks.x86_64.cpuid import on_cpuid
from emu.hooks.x86_64.fence import on_fence_gone
from emu.hooks.x86_64.helpers.state import (
    ALIGNMENT,
    DUE,
    FAULT_CODE,
    KEPT_SEGMENT,
    NO_SEGMENT,
    NOTED,
    OF_PROCESSOR,
    PENDING,
    PROCESSOR,
    PROGRAM,
    RECIPROCALS,
    REVISION,
    TLB,
    TLB_MODES,
    TRIES,
    X87_APPROXIMATED,
    shown,
    told,
)
from emu.hooks.x86_64.helpers.table import corrected
from emu.hooks.x86_64.helpers.watched import watching
from emu.hooks.x86_64.pair import on_pair
from emu.hooks.x86_64.plain_code import decode_plain_block
from emu.hooks.x86_64.system_call import on_replayed_syscall, on_syscall
from emu.hooks.x86_64.timestamp import on_rdtsc, on_rdtscp, on_replayed_rdtsc, on_replayed_rdtscp
from emu.native.tlb import descriptions
from isa.table import Isa

#: A model with RDTSCP and SSE4.2 but no RDRAND, which the recorder emulates (it must be logged).
_MODEL = x86.UC_CPU_X86_SANDYBRIDGE
#: Address space for the translated code of a processor, which Unicorn takes at once; where there is not so
#: much it ends the process. What it takes beside that is small.
_TRANSLATED_BYTES, _BESIDE_BYTES = 1 << 30, 16 << 20


#: Of ymm31, as these are of a processor's state.
_REVISION_BIT, _PROGRAM_BIT, _FAULT_CODE_BIT, _PENDING_BIT, _SEGMENT_BIT, _DUE_BIT, _TRIES_BIT = (
    128 + 8 * (place - NOTED) for place in (REVISION, PROGRAM, FAULT_CODE, PENDING, KEPT_SEGMENT, DUE, TRIES)
)
_FIRST_WITH_PROGRAMS = 2


def new_engine(revision: int) -> unicorn.Uc:
    """An emulator without memory. Raises ShortageError where there is no room for it; CorebraidError, see
    `corrected`."""
    corrected()
    check_room(_TRANSLATED_BYTES + _BESIDE_BYTES)
    engine = unicorn.Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
    engine.ctl_set_cpu_model(_MODEL)
    # Before the first use of a register, which makes the processor and this room.
    engine.ctl_set_tcg_buffer_size(_TRANSLATED_BYTES)
    engine.reg_write(x86.UC_X86_REG_YMM31, revision << _REVISION_BIT)
    return engine


def register_number(name: str) -> int:
    """Unicorn's number of a register of `isa.x86_64.registers`."""
    found: int = getattr(x86, f"UC_X86_REG_{name.upper()}")
    return found


def tlb_descriptions(engine: unicorn.Uc) -> int:
    """Where it can be told how large its TLB is to be."""
    processor = ctypes.c_uint64.from_address(int(engine._uch.value) + OF_PROCESSOR).value
    return descriptions(processor + PROCESSOR - TLB, TLB_MODES)


def place_memory(engine: unicorn.Uc, address: int, n_bytes: int, core_row: int) -> None:
    """The memory of its processor lies at an address of this process, and so does its core's row."""
    engine.reg_write(x86.UC_X86_REG_YMM30, (address | n_bytes << 64) << 128)
    engine.reg_write(x86.UC_X86_REG_YMM29, core_row << 192)


def run_programs(engine: unicorn.Uc, revision: int) -> None:
    """From now on what runs there is a program of Linux, if instructions are corrected at all."""
    if revision >= _FIRST_WITH_PROGRAMS:
        noted = engine.reg_read(x86.UC_X86_REG_YMM31)
        engine.reg_write(x86.UC_X86_REG_YMM31, noted | 1 << _PROGRAM_BIT)
        engine.reg_write(x86.UC_X86_REG_MXCSR, engine.reg_read(x86.UC_X86_REG_MXCSR))


def try_stores(engine: unicorn.Uc) -> None:
    """From now on it tries stores that it makes in parts before the first one."""
    noted = engine.reg_read(x86.UC_X86_REG_YMM31)
    engine.reg_write(x86.UC_X86_REG_YMM31, noted | 1 << _TRIES_BIT)


def watch(engine: unicorn.Uc, core_row: int) -> None:
    """From now on accesses to the pages that a core's row says are watched are rows of its trace."""
    watching()
    engine.reg_write(x86.UC_X86_REG_YMM29, (core_row | core_row << 64) << 128)


def fault_code(engine: unicorn.Uc) -> int:
    """The error code of the exception that was just raised."""
    noted: int = engine.reg_read(x86.UC_X86_REG_YMM31)
    return noted >> _FAULT_CODE_BIT & 0xFFFFFFFF


def approximated(engine: unicorn.Uc) -> int:
    """Bits of `X87_APPROXIMATED`, `RECIPROCALS` and `ALIGNMENT`."""
    upper: int = engine.reg_read(x86.UC_X86_REG_YMM31) >> 128
    return upper & (X87_APPROXIMATED | RECIPROCALS | ALIGNMENT)


def due(engine: unicorn.Uc) -> int:
    """Exceptions of SSE arithmetic that the last instruction failed with; bits of MXCSR."""
    return int(engine.reg_read(x86.UC_X86_REG_YMM31)) >> _DUE_BIT & 0x3F


def deliver(engine: unicorn.Uc, exceptions: int) -> None:
    """They are in MXCSR from now on."""
    engine.reg_write(x86.UC_X86_REG_MXCSR, engine.reg_read(x86.UC_X86_REG_MXCSR) | exceptions)


def load_coprocessor() -> None:
    """The x87's instructions."""
    corrected().load()


def settle_coprocessor(engine: unicorn.Uc) -> None:
    """What the last x87 store had to say is told if it happened (`x87_exceptions.settle`)."""
    upper: int = engine.reg_read(x86.UC_X86_REG_YMM31)
    status = upper >> _PENDING_BIT & 0xFFFF
    if not status:
        return
    engine.reg_write(x86.UC_X86_REG_YMM31, upper & ~(0xFFFF << _PENDING_BIT))
    if engine.reg_read(x86.UC_X86_REG_FDS) == NO_SEGMENT:
        engine.reg_write(x86.UC_X86_REG_FDS, upper >> _SEGMENT_BIT & 0xFFFF)
    else:
        word, control = (engine.reg_read(of) for of in (x86.UC_X86_REG_FPSW, x86.UC_X86_REG_FPCW))
        engine.reg_write(x86.UC_X86_REG_FPSW, told(word, control, status))


_FIRST_SHOWN = 2


def show_coprocessor(isa: Isa, context: memoryview) -> None:
    """The x87's words are as a program sees them. Whatever was loaded into them, they become so only when an
    instruction looks, which a replay may not reach."""
    if isa.revision < _FIRST_SHOWN:
        return
    control, status = isa.offset("fpcw"), isa.offset("fpsw")
    words = shown(*(int.from_bytes(context[at : at + 2], "little") for at in (control, status)))
    for at, word in zip((control, status), words, strict=True):
        context[at : at + 2] = word.to_bytes(2, "little")


_CPUID = InstructionHook(x86.UC_X86_INS_CPUID, on_cpuid)

NATIVE = NativeIsa(
    new_engine=new_engine,
    register_number=register_number,
    plain_block=decode_plain_block,
    pair=on_pair,
    fence_gone=on_fence_gone,
    load_coprocessor=load_coprocessor,
    # Where the last x87 instruction was, and its operand.
    unlisted=(
        x86.UC_X86_REG_FIP,
        x86.UC_X86_REG_FCS,
        x86.UC_X86_REG_FDP,
        x86.UC_X86_REG_FDS,
        x86.UC_X86_REG_FOP,
    ),
    place_memory=place_memory,
    run_programs=run_programs,
    try_stores=try_stores,
    watch=watch,
    locate="cpu_restore_state_x86_64",
    forget_page="tlb_flush_page_x86_64",
    tlb=tlb_descriptions,
    tlb_modes=TLB_MODES,
    fault_code=fault_code,
    settle_coprocessor=settle_coprocessor,
    show_coprocessor=show_coprocessor,
    approximated=approximated,
    due=due,
    deliver=deliver,
    recorded=(
        InstructionHook(x86.UC_X86_INS_RDTSC, on_rdtsc),
        InstructionHook(x86.UC_X86_INS_RDTSCP, on_rdtscp),
    ),
    replayed=(
        InstructionHook(x86.UC_X86_INS_RDTSC, on_replayed_rdtsc),
        InstructionHook(x86.UC_X86_INS_RDTSCP, on_replayed_rdtscp),
    ),
    unserved_calls=(
        InstructionHook(x86.UC_X86_INS_SYSCALL, on_unserved_call),
        InstructionHook(x86.UC_X86_INS_SYSENTER, on_unserved_call),
    ),
    calls=(_CPUID, InstructionHook(x86.UC_X86_INS_SYSCALL, on_syscall)),
    replayed_calls=(_CPUID, InstructionHook(x86.UC_X86_INS_SYSCALL, on_replayed_syscall)),
)
