"""The short way to decode a block gives what the long way gives, on libraries' code and on random bytes."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from isa.decode import decode_block, decode_in_detail

_ROOT = Path(__file__).resolve().parent.parent
_PROGRAMS = [
    "firmware/linux/x86_64/static_hello",
    "firmware/x86_64/radix.elf",
    "firmware/linux/x86_64/privileged",
]


def _text(path: Path) -> bytes:
    elf = ELFFile(io.BytesIO(path.read_bytes()))
    return bytes(elf.get_section_by_name(".text").data())


@pytest.mark.parametrize("name", _PROGRAMS)
def test_code_of_programs(name: str) -> None:
    """Every place of a program's code, as a block of up to 40 bytes."""
    code, source = _text(_ROOT / name), random.Random(1)
    short = 0
    for _ in range(6000):
        at, n = source.randrange(len(code)), source.randint(1, 40)
        block = decode_block(code[at : at + n], 0x401000 + at)
        assert block == decode_in_detail(code[at : at + n], 0x401000 + at), code[at : at + n].hex(" ")
        short += block.unknown < 0
    assert short > 500


def test_random_bytes() -> None:
    """Anything at all, with prefixes more often than they come."""
    source = random.Random(2)
    often = bytes.fromhex("66 67 f0 f2 f3 48 0f 2e 64 c4 c5 62 8f e9 c3 ff 0f 20 22 87 c7")
    for _ in range(20_000):
        code = bytes(
            source.choice(often) if source.random() < 0.4 else source.randrange(256)
            for _ in range(source.randint(1, 24))
        )
        assert decode_block(code, 0x1000) == decode_in_detail(code, 0x1000), code.hex(" ")
