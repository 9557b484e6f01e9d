"""How long an instruction is to the emulator, and to the decoder."""

from __future__ import annotations

from typing import Any

import capstone
from unicorn import Uc, UcError
from unicorn import unicorn_const as uc
from unicorn import x86_const as x86

CODE, DATA = 0x1000, 0x8000


class Lengths:
    """Executes one instruction at a time and compares its length with the decoder's."""

    def __init__(self) -> None:
        self.engine = Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
        self.engine.ctl_set_cpu_model(x86.UC_CPU_X86_SANDYBRIDGE)
        self.engine.mem_map(0, 0x20000)
        self.engine.hook_add(uc.UC_HOOK_CODE, self._instruction)
        self.engine.hook_add(uc.UC_HOOK_INTR, self._interrupt)
        self.decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.sizes: list[int] = []
        self.start = self.engine.context_save()

    def _instruction(self, engine: Uc, address: int, size: int, user: Any) -> None:
        self.sizes.append(size)
        if len(self.sizes) > 1:
            engine.emu_stop()

    def _interrupt(self, engine: Uc, number: int, user: Any) -> None:
        self.sizes.clear()
        engine.emu_stop()

    def of(self, code: bytes) -> tuple[int, int]:
        """(the emulator's, the decoder's) length; the emulator's is 0 if the instruction failed."""
        self.engine.context_restore(self.start)
        for name in ("RAX", "RBX", "RCX", "RDX", "RSI", "RDI", "RBP", "RSP", "R8", "R12"):
            self.engine.reg_write(getattr(x86, f"UC_X86_REG_{name}"), DATA)
        self.engine.mem_write(0, bytes([0x90]) * 0x4000)
        self.engine.ctl_remove_cache(0, 0x4000)
        self.engine.mem_write(CODE, code)
        self.sizes.clear()
        try:
            self.engine.emu_start(CODE, 0)
        except UcError:
            return 0, 0
        instruction = next(self.decoder.disasm(code, CODE, 1), None)
        return self.sizes[0] if self.sizes else 0, instruction.size if instruction else 0
