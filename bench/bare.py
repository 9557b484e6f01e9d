"""The yardsticks: the emulator with no hooks at all, on the same image, one core; and the same with its page
table replaced by a native hook that maps every page to itself, as the recorder's is, which is faster for some
programs.

With `bench.linux_bare` the only file outside `emu/` that touches Unicorn: what is compared with must not be
what is measured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import unicorn
from unicorn import unicorn_const as uc
from unicorn import x86_const as x86

from corebraid.base.memory import PAGE_BYTES
from emu.board.elf import load_image
from emu.native.unicorn import FILL_HOOK, TLB_ENTRY, add_hook, hook, row_getter
from isa.x86_64.registers import X86_64

_MEMORY = 64 << 20
_DEVICES, _POWER_OFF = 0xF0000000, 0x10
_PAGE = np.uint64(0xFFF)
#: As the recorder gives them: a page that is written to without being fit for execution costs less.
_CODE_RIGHTS, _DATA_RIGHTS = uc.UC_PROT_READ | uc.UC_PROT_EXEC, uc.UC_PROT_READ | uc.UC_PROT_WRITE

_entry_at = row_getter(TLB_ENTRY)


@hook(FILL_HOOK)
def _on_fill(handle, address, access, result, user):  # type: ignore[no-untyped-def]
    entry = _entry_at(result)
    entry.address = address & ~_PAGE
    entry.permissions = np.uint32(_CODE_RIGHTS if access == uc.UC_MEM_FETCH else _DATA_RIGHTS)
    return True


@dataclass(frozen=True)
class BareRun:
    """Processor seconds of a whole call and of the run alone, and the guest's exit code."""

    call: float
    run: float
    exit_code: int


def run_bare(program: Path, *, own_pages: bool = False) -> BareRun:
    """Run a firmware image on one core until it powers the machine off; console output is dropped.

    own_pages: with UC_TLB_VIRTUAL and the hook that fills pages one to one, instead of the default.
    """
    began = time.process_time()
    image, _ = load_image(program, X86_64, _MEMORY)
    engine = unicorn.Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
    engine.ctl_set_cpu_model(x86.UC_CPU_X86_SANDYBRIDGE)
    memory = np.zeros(_MEMORY, np.uint8)
    engine.mem_map_ptr(0, _MEMORY, uc.UC_PROT_ALL, memory.ctypes.data)
    for segment in image.segments:
        memory[segment.address : segment.address + len(segment.data)] = np.frombuffer(segment.data, np.uint8)
    exit_codes: list[int] = []

    def on_write(engine: unicorn.Uc, offset: int, size: int, value: int, user: object) -> None:
        if offset == _POWER_OFF:
            exit_codes.append(value & 0xFF)
            engine.emu_stop()

    engine.mmio_map(_DEVICES, PAGE_BYTES, lambda *_: 0, None, on_write, None)
    if own_pages:
        engine.ctl_set_tlb_mode(uc.UC_TLB_VIRTUAL)
        handle = engine._uch
        add_hook(int(getattr(handle, "value", handle)), uc.UC_HOOK_TLB_FILL, _on_fill, 0)
    for name, value in X86_64.reset:
        engine.reg_write(getattr(x86, f"UC_X86_REG_{name.upper()}"), value)
    for name, value in zip(X86_64.arguments, (0, 1), strict=True):
        engine.reg_write(getattr(x86, f"UC_X86_REG_{name.upper()}"), value)
    started = time.process_time()
    engine.emu_start(image.entry, 0)
    ended = time.process_time()
    return BareRun(ended - began, ended - started, exit_codes[0])
