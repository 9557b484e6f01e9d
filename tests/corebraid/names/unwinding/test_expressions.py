"""DWARF expressions, against what Python computes, and those that must be refused."""

from __future__ import annotations

import random

import pytest
from stack_factory import Words, sleb, uleb

from corebraid.names.unwinding.expressions import In, Location, location_of, value_of
from corebraid.names.unwinding.machine import FrameMachine

MASK = (1 << 64) - 1
MEMORY = Words({0x1000: 0x1122334455667788, 0x2008: 5})
MACHINE = FrameMachine({3: 100, 7: 0x1000}, MEMORY, 0x7000, 0x1010, 0x1008)


def constant(value: int) -> bytes:
    """DW_OP_const8u."""
    return b"\x0e" + (value & MASK).to_bytes(8, "little")


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


BINARY = {
    0x1A: lambda a, b: a & b, 0x1C: lambda a, b: a - b, 0x1E: lambda a, b: a * b, 0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b, 0x27: lambda a, b: a ^ b, 0x24: lambda a, b: a << b if b < 64 else 0,
    0x25: lambda a, b: a >> b if b < 64 else 0, 0x26: lambda a, b: signed(a) >> min(b, 64),
    0x29: lambda a, b: a == b, 0x2E: lambda a, b: a != b, 0x2A: lambda a, b: signed(a) >= signed(b),
    0x2B: lambda a, b: signed(a) > signed(b), 0x2C: lambda a, b: signed(a) <= signed(b),
    0x2D: lambda a, b: signed(a) < signed(b),
    0x1B: lambda a, b: int(abs(signed(a)) // abs(signed(b)) * (1 if signed(a) * signed(b) >= 0 else -1)),
    0x1D: lambda a, b: a % b,
}  # fmt: skip


@pytest.mark.parametrize("opcode", BINARY)
def test_numbers_are_those_that_python_computes(opcode: int) -> None:
    draw = random.Random(opcode)
    for _ in range(200):
        a, b = (
            draw.choice((draw.getrandbits(64), draw.randrange(70), MASK - draw.randrange(3))) for _ in "ab"
        )
        if not b and opcode in (0x1B, 0x1D):
            continue
        assert value_of(constant(a) + constant(b) + bytes([opcode]), MACHINE) == BINARY[opcode](a, b) & MASK


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (b"\x30", 0), (b"\x4f", 31), (b"\x08\xff", 255), (b"\x09\xff", MASK), (b"\x0b\xfe\xff", MASK - 1),
        (b"\x10" + uleb(1 << 40), 1 << 40), (b"\x11" + sleb(-7), MASK - 6), (b"\x31\x1f", MASK),
        (b"\x11" + sleb(-7) + b"\x19", 7), (b"\x30\x20", MASK),
        (b"\x73\x01", 101), (b"\x92\x07" + sleb(-8), 0xFF8), (b"\x77\x00\x06", 0x1122334455667788),
        (b"\x77\x00\x94\x02", 0x7788), (b"\x77\x04\x94\x04", 0x11223344), (b"\x9c", 0x1010),
        (b"\x91" + sleb(-8), 0x1000), (b"\x03" + (0x10).to_bytes(8, "little"), 0x7010),
        (b"\x31\x32\x33\x16\x13", 3), (b"\x31\x32\x33\x17\x13", 1), (b"\x31\x32\x14", 1),
        (b"\x31\x32\x33\x15\x02", 1), (b"\x35\x23\x03", 8), (b"\x31\x28\x01\x00\x42\x43", 19),
        (b"\x30\x28\x01\x00\x42\x43", 19), (b"\x2f\x01\x00\x42\x43\x96", 19),
    ],
)  # fmt: skip
def test_operations(code: bytes, value: int) -> None:
    assert value_of(code, MACHINE) == value


def test_locations() -> None:
    assert location_of(b"\x55", MACHINE) == Location(In.REGISTER, 5)
    assert location_of(b"\x90\x11", MACHINE) == Location(In.REGISTER, 17)
    assert location_of(b"\x77\x08", MACHINE) == Location(In.MEMORY, 0x1008)
    assert location_of(b"\x35\x9f", MACHINE) == Location(In.NOWHERE, 5)
    assert location_of(b"\x9e\x02\x34\x12", MACHINE) == Location(In.NOWHERE, 0x1234)
    assert location_of(b"\x23\x08", MACHINE, 0x20) == Location(In.MEMORY, 0x28)


@pytest.mark.parametrize(
    "code",
    [
        b"", b"\x12", b"\x22", b"\x71\x00", b"\x06", b"\x30\x06", b"\x08", b"\x31\x30\x1b", b"\x31\x30\x1d",
        b"\x2f\xfd\xff", b"\x2f\x10\x00", b"\x2f\x00\x80", b"\x55\x93\x04", b"\xa3\x01\x55", b"\xe0", b"\xff",
        b"\x30\x94\x00", b"\x30\x94\x09", b"\x9e\x09", b"\x31\x15\x05", b"\x30" * 300, b"\x31\x17",
        b"\x30\x97", b"\x9b",
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(code: bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        value_of(code, MACHINE)


def test_a_register_is_no_number() -> None:
    with pytest.raises(ValueError, match="register"):
        value_of(b"\x53", MACHINE)


def test_random_bytes_end() -> None:
    draw = random.Random(1)
    for _ in range(3000):
        code = draw.randbytes(draw.randrange(1, 40))
        try:
            assert 0 <= value_of(code, MACHINE) <= MASK
        except ValueError:
            continue
