"""The short ways to decode a block give what the long way gives, on libraries' code and on random bytes."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from emu.code.blocks import OFFSET_MASK, REWRITES
from emu.hooks.x86_64.plain_code import plain_block, plain_instruction
from emu.native.state import address_of
from isa.x86_64.decode import Block, decode_block, decode_in_detail

_ROOT = Path(__file__).resolve().parents[2]
_ESCAPES = (b"", b"\x0f", b"\x0f\x38", b"\x0f\x3a")
_PROGRAMS = [
    "firmware/linux/x86_64/static_hello",
    "firmware/x86_64/radix.elf",
    "firmware/linux/x86_64/privileged",
]


def _text(path: Path) -> bytes:
    elf = ELFFile(io.BytesIO(path.read_bytes()))
    return bytes(elf.get_section_by_name(".text").data())


def _decoded_natively(code: bytes) -> Block | None:
    """What the native way makes of a block; None: it is left to the others."""
    # Behind the block lies something that must not be looked at.
    raw = np.frombuffer(code + b"\x90" * 16, np.uint8).copy()
    offsets = np.zeros(len(code), np.uint16)
    n = int(plain_block(np.uint64(address_of(raw)), len(code), np.uint64(address_of(offsets))))
    if n == 0:
        return None
    found = offsets[: abs(n)]
    stored = tuple(np.flatnonzero(found & REWRITES).tolist())
    at = tuple((found & OFFSET_MASK).tolist())
    return Block(at, (), (), n < 0, False, False, (), (), (), -1, "", -1, rewrites=stored)


@pytest.mark.parametrize("name", _PROGRAMS)
@pytest.mark.sampled(1)
def test_code_of_programs(name: str) -> None:
    """Every place of a program's code, as a block of up to 40 bytes."""
    code, source = _text(_ROOT / name), random.Random(1)
    short = native = 0
    for _ in range(6000):
        at, n = source.randrange(len(code)), source.randint(1, 40)
        block = decode_block(code[at : at + n], 0x401000 + at)
        assert block == decode_in_detail(code[at : at + n], 0x401000 + at), code[at : at + n].hex(" ")
        short += block.unknown < 0
        plain = _decoded_natively(code[at : at + n])
        assert plain in (None, block), code[at : at + n].hex(" ")
        native += plain is not None
    assert short > 500
    assert native > 200


@pytest.mark.soak
def test_random_bytes() -> None:
    """Anything at all, with prefixes more often than they come."""
    source = random.Random(2)
    often = bytes.fromhex("66 67 f0 f2 f3 48 0f 2e 64 c4 c5 62 8f e9 c3 ff 0f 20 22 87 c7")
    for _ in range(8_000):
        code = bytes(
            source.choice(often) if source.random() < 0.4 else source.randrange(256)
            for _ in range(source.randint(1, 24))
        )
        block = decode_in_detail(code, 0x1000)
        assert decode_block(code, 0x1000) == block, code.hex(" ")
        assert _decoded_natively(code) in (None, block), code.hex(" ")


def test_every_opcode_natively() -> None:
    """All opcodes, with prefixes and operands that random bytes seldom have, each cut where the native way
    says that it ends."""
    source, native = random.Random(3), 0
    prefixes = [*map(bytes.fromhex, ("", "66", "f2", "f3", "64", "2e", "6666", "662e", "66f3"))]
    for opcode in (bytes([*escape, byte]) for escape in _ESCAPES for byte in range(256)):
        for _ in range(60):
            rex = source.choice((b"", b"", b"\x41", b"\x48"))
            code = source.choice(prefixes) + rex + opcode + source.randbytes(15)
            raw = np.frombuffer(code, np.uint8).copy()
            length = abs(int(plain_instruction(np.uint64(address_of(raw)), 15)[0]))
            if length:
                native += 1
                block = decode_in_detail(code[:length], 0x1000)
                assert _decoded_natively(code[:length]) == block, code[:length].hex(" ")
                assert block.offsets == (0,), code[:length].hex(" ")
    assert native > 3000
