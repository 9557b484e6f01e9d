"""Floating-point registers as a signal frame stores them: FXSAVE's image (SDM volume 1, 10.5.1)."""

from __future__ import annotations

import errno

from emu.linux.ground.failure import Errno
from emu.linux.ground.guest_memory import GuestMemory
from isa.abi_signals import FloatImage
from isa.table import Isa

_VALID, _ZERO, _SPECIAL, _EMPTY = range(4)
_TOP_SHIFT = 11


def float_image(isa: Isa, layout: FloatImage, context: bytes) -> bytes:
    """The image of the registers in `context`."""
    image = bytearray(layout.size)
    for name, offset in layout.registers.items():
        raw = _raw(isa, context, name)
        image[offset : offset + len(raw)] = raw
    register, offset = layout.tags
    tags = isa.read(context, register)
    image[offset] = sum(1 << n for n in range(8) if tags >> 2 * n & 3 != _EMPTY)
    for offset, size, value in layout.constants:
        image[offset : offset + size] = value.to_bytes(size, "little")
    return bytes(image)


def read_image(memory: GuestMemory, layout: FloatImage, address: int) -> bytes:
    """The image at an address. Raises Errno(EFAULT): the processor would load none from there."""
    if address % layout.boundary:
        raise Errno(errno.EFAULT)
    return memory.read(address, layout.size)


def with_floats(isa: Isa, layout: FloatImage, context: bytes, image: bytes) -> bytes:
    """`context` with the registers of an image. Raises Errno(EFAULT): the processor would refuse it."""
    register, allowed = layout.control
    start = layout.registers[register]
    if int.from_bytes(image[start : start + 4], "little") & ~allowed:
        raise Errno(errno.EFAULT)
    for name, offset in layout.registers.items():
        size = len(_raw(isa, context, name))
        context = _with_raw(isa, context, name, image[offset : offset + size])
    register, offset = layout.tags
    return isa.with_register(context, register, _tag_word(isa, layout, context, image[offset]))


def initial_floats(isa: Isa, layout: FloatImage, context: bytes) -> bytes:
    """`context` with the registers that a program, or a handler, starts with."""
    for name in (*layout.registers, layout.tags[0]):
        context = isa.with_register(context, name, layout.initial.get(name, 0))
    return context


def _tag_word(isa: Isa, layout: FloatImage, context: bytes, in_use: int) -> int:
    """The full tag word, of two bits a physical register: what the register holds says the rest."""
    top = isa.read(context, layout.status) >> _TOP_SHIFT & 7
    tags = 0
    for distance, name in enumerate(layout.stack):
        physical = (top + distance) & 7
        value = isa.read(context, name)
        tag = _classify(value) if in_use >> physical & 1 else _EMPTY
        tags |= tag << 2 * physical
    return tags


def _classify(value: int) -> int:
    """The tag of an 80-bit number (SDM volume 1, 8.1.7)."""
    exponent, mantissa = value >> 64 & 0x7FFF, value & ((1 << 64) - 1)
    if exponent == 0 and mantissa == 0:
        return _ZERO
    if exponent in (0, 0x7FFF) or not mantissa >> 63:
        return _SPECIAL
    return _VALID


def _raw(isa: Isa, context: bytes, name: str) -> bytes:
    start = isa.offset(name)
    return context[start : start + _sizes(isa)[name]]


def _with_raw(isa: Isa, context: bytes, name: str, raw: bytes) -> bytes:
    start = isa.offset(name)
    return context[:start] + raw + context[start + len(raw) :]


def _sizes(isa: Isa) -> dict[str, int]:
    return {register.name: register.size for register in isa.registers}
