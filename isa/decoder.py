"""Decoding by instruction set: the one way to the decoder of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from isa.decoded import Access, Block, Branch, Flow, RandomRead
from isa.table import Isa
from isa.x86_64 import decode as _x86_64
from isa.x86_64 import faulting as _x86_64_faulting
from isa.x86_64 import flow as _x86_64_flow


class Decoder(Protocol):
    """What a decoder can do; `isa.x86_64.decode` says what each gives."""

    def decode_block(self, code: bytes, address: int) -> Block:
        """A translated block, decoded."""

    def disassemble(self, code: bytes, address: int) -> str:
        """Text of the instruction that starts `code`, or '(bad)'."""

    def decode_random_read(self, code: bytes, address: int) -> RandomRead | None:
        """The instruction that starts `code`, if it reads a random number."""


class FaultDecoder(Protocol):
    """What a decoder knows of instructions that were refused; `isa.x86_64.faulting` says what each gives."""

    def accesses(self, code: bytes, address: int, read: Callable[[str], int]) -> list[Access]:
        """What the instruction that starts `code` may access."""

    def accessed_addresses(self, code: bytes, address: int, read: Callable[[str], int]) -> list[int]:
        """Where that is."""

    def frame_made(self, code: bytes, address: int, read: Callable[[str], int]) -> Access | None:
        """What the instruction that starts `code` stores in parts, if it may fail between two of them."""

    def may_store(self, code: bytes, address: int) -> bool:
        """Whether one of the instructions that are `code` may store to memory."""

    def branch(self, code: bytes, address: int) -> Branch | None:
        """The near branch that starts `code`, or None."""

    def length_of_trap(self, code: bytes, address: int) -> int:
        """Bytes of an instruction that asks for a debugger, or 0."""


class FlowDecoder(Protocol):
    """What a decoder knows of where values go; `isa.x86_64.flow` says what it gives."""

    def flow(self, code: bytes, address: int) -> Flow:
        """Of the instruction that starts `code`."""


#: By the ISA's name.
_DECODERS: dict[str, Decoder] = {"x86_64": _x86_64}
_FLOW_DECODERS: dict[str, FlowDecoder] = {"x86_64": _x86_64_flow}
_FAULT_DECODERS: dict[str, FaultDecoder] = {"x86_64": _x86_64_faulting}


def decoder_of(isa: Isa) -> Decoder:
    """The decoder of an instruction set that `isa.registry` has."""
    return _DECODERS[isa.name]


def fault_decoder_of(isa: Isa) -> FaultDecoder:
    """The same for instructions that were refused."""
    return _FAULT_DECODERS[isa.name]


def flow_decoder_of(isa: Isa) -> FlowDecoder:
    """The same for where values go."""
    return _FLOW_DECODERS[isa.name]
