"""A frame's registers and memory, for expressions to be computed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

_64_BITS = (1 << 64) - 1


class Memory(Protocol):
    """Memory of a thread that has stopped."""

    def read(self, address: int, size: int) -> bytes | None:
        """`size` bytes from `address` on; None where that is not known."""


class FrameMachine:
    """registers: those that are known, by DWARF's number. bias: from addresses that the file counts to those
    of the guest. frame, base: see `corebraid.names.unwinding.expressions.Machine`; None: not known."""

    def __init__(
        self,
        registers: Mapping[int, int],
        memory: Memory,
        bias: int = 0,
        frame: int | None = None,
        base: int | None = None,
    ) -> None:
        self._registers, self._memory, self._bias = registers, memory, bias
        self._frame, self._base = frame, base

    def register(self, number: int) -> int:
        """A register. Raises ValueError."""
        if number not in self._registers:
            raise ValueError("a register that is not known")
        return self._registers[number]

    def read(self, address: int, size: int) -> int:
        """A number in memory. Raises ValueError."""
        found = self._memory.read(address & _64_BITS, size)
        if found is None:
            raise ValueError(f"nothing is known of the memory at {address:#x}")
        return int.from_bytes(found, "little")

    def address(self, value: int) -> int:
        """Where it is in the guest."""
        return value + self._bias

    def frame_address(self) -> int:
        """Raises ValueError."""
        if self._frame is None:
            raise ValueError("a frame that is not known")
        return self._frame

    def frame_base(self) -> int:
        """Raises ValueError."""
        if self._base is None:
            raise ValueError("a frame base that is not known")
        return self._base
