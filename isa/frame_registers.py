"""How debug information numbers the registers of an instruction set. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class FrameRegisters:
    """names: registers by DWARF's number; '': there is none of that number that a context header has.
    stack_pointer, return_address: numbers; that of the return address need be no register of the processor.
    kept: numbers of those that a function leaves as they were. call_bytes: lengths that a call may have.
    table_type: a type that only sections of frame tables have, as pyelftools names it. signal_return: the
    code that a signal's handler returns to, as C libraries write it. saved: distance from the stack pointer
    there of what the interrupted code had in each register, by number.
    """

    names: tuple[str, ...]
    stack_pointer: int
    return_address: int
    kept: frozenset[int]
    call_bytes: tuple[int, ...]
    table_type: str
    signal_return: bytes
    saved: dict[int, int]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number by name."""
        return {name: number for number, name in enumerate(self.names) if name}
