"""What a linker makes to call into libraries, as far as it differs by instruction set. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallStubs:
    """Stubs, and the pointers that they jump through.

    pointers: numbers of the relocations whose place is a pointer to the symbol. sections: those that hold
    stubs. jump: a regular expression over bytes for the jump in a stub; its group is the distance of the
    pointer from the jump's end, signed and little-endian. jump_bytes, stub_bytes: their sizes.
    """

    pointers: tuple[int, ...]
    sections: tuple[str, ...]
    jump: bytes
    jump_bytes: int
    stub_bytes: int
