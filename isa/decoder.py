"""Decoding by instruction set: the one way to the decoder of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from isa.decoded import Block, RandomRead
from isa.table import Isa
from isa.x86_64 import decode as _x86_64


class Decoder(Protocol):
    """What a decoder can do; `isa.x86_64.decode` says what each gives."""

    def decode_block(self, code: bytes, address: int) -> Block:
        """A translated block, decoded."""

    def disassemble(self, code: bytes, address: int) -> str:
        """Text of the instruction that starts `code`, or '(bad)'."""

    def decode_random_read(self, code: bytes, address: int) -> RandomRead | None:
        """The instruction that starts `code`, if it reads a random number."""

    def accessed_addresses(self, code: bytes, address: int, read: Callable[[str], int]) -> list[int]:
        """Where the instruction that starts `code` may access memory."""


#: By the ISA's name.
_DECODERS: dict[str, Decoder] = {"x86_64": _x86_64}


def decoder_of(isa: Isa) -> Decoder:
    """The decoder of an instruction set that `isa.registry` has."""
    return _DECODERS[isa.name]
