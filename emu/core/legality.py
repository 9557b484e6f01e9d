"""Whether bytes that the decoder does not know are illegal to the emulator, or executed by it."""

from __future__ import annotations

import unicorn
from unicorn import unicorn_const as uc

from emu.hooks.registry import native_isa
from isa.table import Isa

_CODE, _SIZE = 0x1000, 0x1000
_HALT = b"\xf4"


def is_illegal(isa: Isa, code: bytes) -> bool:
    """Whether the instruction that begins `code` (1 to 15 bytes count) is illegal to the emulator.

    Tried on an emulator of its own, where it does no harm. It must be one that translation survives.
    """
    engine = native_isa(isa).new_engine(isa.revision)
    engine.mem_map(_CODE, _SIZE)
    engine.mem_write(_CODE, code[:15] + _HALT * 16)
    try:
        engine.emu_start(_CODE, 0, count=1)
    except unicorn.UcError as error:
        return bool(error.errno == uc.UC_ERR_INSN_INVALID)
    return False
