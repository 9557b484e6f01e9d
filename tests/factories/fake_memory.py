"""Guest memory without a bus, for tests of the kernel's calls."""

from __future__ import annotations

import errno

from emu.linux.ground.failure import Errno


class FakeMemory:
    """Memory at [base, base + size) and nowhere else. raw: its bytes."""

    def __init__(self, size: int, base: int = 4096) -> None:
        self.raw, self.base = bytearray(size), base

    def _start(self, address: int, n: int) -> int:
        if not self.base <= address <= self.base + len(self.raw) - n:
            raise Errno(errno.EFAULT)
        return address - self.base

    def read(self, address: int, n: int) -> bytes:
        start = self._start(address, n)
        return bytes(self.raw[start : start + n])

    def write(self, address: int, data: bytes) -> None:
        start = self._start(address, len(data))
        self.raw[start : start + len(data)] = data

    def reachable(self, address: int, n: int, write: bool) -> int:
        return 0 if address < self.base else max(0, min(n, self.base + len(self.raw) - address))

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        start = self._start(address, 1)
        end = self.raw.find(0, start, start + limit)
        if end < 0:
            raise Errno(errno.ENAMETOOLONG)
        return bytes(self.raw[start:end])

    def read_number(self, address: int, size: int) -> int:
        return int.from_bytes(self.read(address, size), "little")

    def write_number(self, address: int, size: int, value: int) -> None:
        self.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"))
