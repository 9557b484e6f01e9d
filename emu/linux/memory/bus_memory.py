"""Guest memory through the bus, for the kernel of a Linux guest."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import numpy as np

from corebraid.base.compiled import Kernel
from corebraid.base.memory import PAGE_BYTES
from emu.board.board import Board
from emu.bus.kernel_agent import fill_bytes, peek_number, read_bytes, read_modify_write, write_bytes
from emu.linux.ground.failure import Errno
from emu.linux.memory.address_space import AddressSpace
from emu.native.state import MACHINE_AT, RIGHT_READ, RIGHT_WRITE

#: Why the kernel made an access, as the agents' log says it (recorder/files/agent_codec.py).
CAUSE_CALL, CAUSE_PAGE, CAUSE_SIGNAL, CAUSE_EXIT = 4, 5, 6, 7
#: Longest run of bytes that is read at once when looking for the end of a string.
_STRING_STEP = 64


class BusMemory:
    """`GuestMemory` over a board. drain: empties the agents' rows when their buffer is full.

    cause: why accesses are made from here on.
    """

    def __init__(self, board: Board, space: AddressSpace, drain: Callable[[], None]) -> None:
        self._board, self._space, self._drain = board, space, drain
        self.cause = CAUSE_CALL
        self._calls: dict[Kernel, Callable[..., Any]] = {}
        space.fill = self._fill
        space.copy_out = self._copy_out

    def _all(self, kernel: Kernel, address: int, data: np.ndarray, cause: int) -> None:
        done, at = 0, np.uint64(address)
        cores, machines = self._board.core_rows, self._board.machine_rows
        call = self._calls.get(kernel)
        if call is None:
            call = self._calls[kernel] = kernel.like(cores, machines, at, data, done, cause)
        while True:
            done = int(call(cores, machines, at, data, done, cause))
            if done >= len(data):
                return
            self._drain()

    def _fill(self, address: int, data: bytes) -> None:
        self._all(fill_bytes, address, np.frombuffer(data, np.uint8), CAUSE_PAGE)

    def _copy_out(self, address: int, n: int) -> bytes:
        data = np.zeros(n, np.uint8)
        self._all(read_bytes, address, data, self.cause)
        return data.tobytes()

    def read(self, address: int, n: int) -> bytes:
        """n bytes."""
        self._space.reach(address, n, RIGHT_READ)
        return self._copy_out(address, n)

    def write(self, address: int, data: bytes) -> None:
        """Write all of `data`, or fail before anything is written."""
        self._space.reach(address, len(data), RIGHT_WRITE)
        self._all(write_bytes, address, np.frombuffer(data, np.uint8), self.cause)

    def reachable(self, address: int, n: int, write: bool) -> int:
        """How many of n bytes from `address` on, without a gap, the guest may read, or write."""
        return self._space.reachable(address, n, RIGHT_WRITE if write else RIGHT_READ)

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """The bytes before the next 0."""
        found = b""
        while len(found) < limit:
            at = address + len(found)
            n = min(_STRING_STEP - at % _STRING_STEP, limit - len(found), PAGE_BYTES - at % PAGE_BYTES)
            piece, zero, _ = self.read(at, n).partition(b"\0")
            found += piece
            if zero:
                return found
        raise Errno(errno.ENAMETOOLONG)

    def read_number(self, address: int, size: int) -> int:
        """An unsigned number of 1, 2, 4 or 8 bytes."""
        return int.from_bytes(self.read(address, size), "little")

    def write_number(self, address: int, size: int, value: int) -> None:
        """The low `size` bytes of `value`."""
        self.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"))

    def update(self, address: int, size: int, change: Callable[[int], int]) -> int:
        """Replace a number by `change` of it, as one indivisible access; returns what was there before."""
        if address % 8 + size > 8:
            raise Errno(errno.EINVAL)
        self._space.reach(address, size, RIGHT_WRITE)
        board = self._board
        place = np.uint64(address)
        old = int(peek_number(board.core_rows, board.machine_rows, place, size))
        new = np.uint64(change(old) & (1 << 8 * size) - 1)
        read_modify_write(board.core_rows, board.machine_rows, place, size, new, self.cause)
        if board.words[MACHINE_AT.agent_n] >= board.words[MACHINE_AT.agent_limit] or board.losses.full:
            self._drain()
        return old
