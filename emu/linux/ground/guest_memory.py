"""Guest memory as the kernel reaches it: through the bus, as an agent that is not a core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class GuestMemory(Protocol):
    """Reads and writes at guest addresses. Every method raises Errno(EFAULT) where the guest may not.

    Bytes may lie anywhere and reach over pages; numbers are little-endian.
    """

    def read(self, address: int, n: int) -> bytes:
        """n bytes."""

    def write(self, address: int, data: bytes) -> None:
        """Write all of `data`, or fail before anything is written."""

    def reachable(self, address: int, n: int, write: bool) -> int:
        """How many of n bytes from `address` on, without a gap, the guest may read, or write."""

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """The bytes before the next 0; Errno(ENAMETOOLONG) when there is none among the first `limit`."""

    def read_number(self, address: int, size: int) -> int:
        """An unsigned number of 1, 2, 4 or 8 bytes."""

    def write_number(self, address: int, size: int, value: int) -> None:
        """The low `size` bytes of `value`."""

    def update(self, address: int, size: int, change: Callable[[int], int]) -> int:
        """Replace a number by `change` of it, as one indivisible access; returns what was there before."""
