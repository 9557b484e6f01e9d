"""The native side of the instruction sets there are. Another is a package beside `x86_64`, and a row."""

from __future__ import annotations

from emu.hooks.native_isa import NativeIsa
from emu.hooks.x86_64.native import NATIVE as _X86_64
from isa.table import Isa

#: By the ISA's name.
_NATIVE = {"x86_64": _X86_64}


def native_isa(isa: Isa) -> NativeIsa:
    """The native side of an instruction set that `isa.registry` has."""
    return _NATIVE[isa.name]
