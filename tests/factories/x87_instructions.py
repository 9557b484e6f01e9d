"""x87 instructions, each with its code and its kernel, called as the instruction is: on ST(0) and ST(1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from x87_host import on_host
from x87_operands import Number, array_of, kernel_number

from emu.hooks.x86_64.helpers.arctangent import fpatan
from emu.hooks.x86_64.helpers.exponential import f2xm1
from emu.hooks.x86_64.helpers.extended import fxam
from emu.hooks.x86_64.helpers.formats import of_double, of_single, to_double, to_single
from emu.hooks.x86_64.helpers.integer import fbld, fbstp, fild, fist
from emu.hooks.x86_64.helpers.logarithm import fyl2x, fyl2xp1
from emu.hooks.x86_64.helpers.remainder import fprem, fprem1
from emu.hooks.x86_64.helpers.scale import fscale, fxtract
from emu.hooks.x86_64.helpers.trigonometric import fcos, fptan, fsin, fsincos

#: Bits of the status word that kernels give: exceptions and condition codes.
STATUS = 0x473F
#: What one gives: ST(0), or what is stored; ST(1) where that is a result, too; the status.
Result = tuple[Number, Number | None, int]
CHOP = np.uint64(3)


@dataclass(frozen=True)
class Instruction:
    """loaded: on how many numbers it works, 0 for what is in memory. stored: of how many registers results
    are taken. memory: bits that it stores itself, as `x87_host.on_host` says. kernel: from ST(0), ST(1) and
    the rounding control to a result."""

    name: str
    code: bytes
    kernel: Callable[[Any, Any, np.uint64], tuple[Any, ...]]
    loaded: int = 1
    stored: int = 1
    memory: int = 0

    def __str__(self) -> str:
        return self.name

    def of_kernel(self, pair: tuple[Number, Number], rounding: int) -> Result:
        """pair: ST(1) and ST(0), as for the host."""
        st1, st0 = map(kernel_number, pair)
        found = self.kernel(st0, st1, np.uint64(rounding))
        first, second = found[0], found[1] if len(found) == 3 else None
        return _plain(first), None if second is None else _plain(second), int(found[-1])

    def of_host(self, pairs: list[tuple[Number, Number]], rounding: int) -> list[Result]:
        rows = on_host(self.code, rounding, array_of(pairs), self.loaded, self.stored)
        return [self._result(row) for row in rows]

    def _result(self, row: np.ndarray) -> Result:
        first, second = ((int(slot["low"]), int(slot["high"])) for slot in row)
        status = int(row[0]["status"]) & STATUS
        if self.memory:
            return (second[0] & (1 << self.memory) - 1, second[1] if self.memory > 64 else 0), None, status
        return first, second if self.stored == 2 else None, status


def _plain(found: Any) -> Number:
    if isinstance(found, tuple):
        return int(found[0]), int(found[1])
    return int(found), 0


def _pushing(kernel: Any) -> Callable[..., tuple[Any, ...]]:
    """In the order of registers: what was pushed is ST(0). Nothing is with C2."""

    def called(st0: Any, st1: Any, rounding: np.uint64) -> tuple[Any, ...]:
        result, pushed, status = kernel(st0, rounding)
        return (st0, _EMPTY, status) if int(status) & 0x400 else (pushed, result, status)

    return called


#: What is stored of an empty register.
_EMPTY = (0xC000000000000000, 0xFFFF)


def _stores(name: str, code: bytes, bits: int, kernel: Callable[..., tuple[Any, Any]]) -> Instruction:
    return Instruction(name, code, lambda st0, st1, rounding: kernel(st0, rounding), memory=bits)


#: On one number or two, with results in registers.
REMAINDERS = [
    Instruction("fprem", b"\xd9\xf8", lambda st0, st1, rounding: fprem(st0, st1), 2),
    Instruction("fprem1", b"\xd9\xf5", lambda st0, st1, rounding: fprem1(st0, st1), 2),
]
SCALING = [
    Instruction("fscale", b"\xd9\xfd", fscale, 2),
    Instruction("fxtract", b"\xd9\xf4", lambda st0, st1, rounding: fxtract(st0), 1, 2),
    Instruction("fxam", b"\xd9\xe5", lambda st0, st1, rounding: (st0, fxam(st0))),
]
TRANSCENDENTAL = [
    Instruction("f2xm1", b"\xd9\xf0", lambda st0, st1, rounding: f2xm1(st0, rounding)),
    Instruction("fyl2x", b"\xd9\xf1", fyl2x, 2),
    Instruction("fyl2xp1", b"\xd9\xf9", fyl2xp1, 2),
    Instruction("fpatan", b"\xd9\xf3", fpatan, 2),
    Instruction("fsin", b"\xd9\xfe", lambda st0, st1, rounding: fsin(st0, rounding)),
    Instruction("fcos", b"\xd9\xff", lambda st0, st1, rounding: fcos(st0, rounding)),
    Instruction("fptan", b"\xd9\xf2", _pushing(fptan), 1, 2),
    Instruction("fsincos", b"\xd9\xfb", _pushing(fsincos), 1, 2),
]
#: To memory, at rsi + 16.
STORES = [
    _stores("fistp m16", b"\xdf\x5e\x10", 16, lambda st0, rounding: fist(st0, 16, rounding)),
    _stores("fistp m32", b"\xdb\x5e\x10", 32, lambda st0, rounding: fist(st0, 32, rounding)),
    _stores("fistp m64", b"\xdf\x7e\x10", 64, lambda st0, rounding: fist(st0, 64, rounding)),
    _stores("fisttp m16", b"\xdf\x4e\x10", 16, lambda st0, rounding: fist(st0, 16, CHOP)),
    _stores("fisttp m32", b"\xdb\x4e\x10", 32, lambda st0, rounding: fist(st0, 32, CHOP)),
    _stores("fisttp m64", b"\xdd\x4e\x10", 64, lambda st0, rounding: fist(st0, 64, CHOP)),
    _stores("fbstp", b"\xdf\x76\x10", 80, fbstp),
    _stores("fstp m32", b"\xd9\x5e\x10", 32, to_single),
    _stores("fstp m64", b"\xdd\x5e\x10", 64, to_double),
]


def _loads(name: str, code: bytes, kernel: Callable[[Any], tuple[Any, Any]]) -> Instruction:
    return Instruction(name, code, lambda st0, st1, rounding: kernel(st0), 0)


#: From memory, at rdi + 16: there ST(0) is the operand's bytes.
LOADS = [
    _loads("fld m32", b"\xd9\x47\x10", lambda raw: of_single(raw[0] & np.uint64(0xFFFFFFFF))),
    _loads("fld m64", b"\xdd\x47\x10", lambda raw: of_double(raw[0])),
    _loads("fild m64", b"\xdf\x6f\x10", lambda raw: (fild(raw[0].astype(np.int64)), 0)),
    _loads("fbld", b"\xdf\x67\x10", lambda raw: (fbld(raw), 0)),
]
