"""Fields of DWARF's sections (DWARF 5, section 7), read from bytes of which nothing is trusted."""

from __future__ import annotations

#: Longest name of a file or directory, bytes.
LONGEST_NAME = 4096
LONG_FORM = 0xFFFFFFFF
_64_BITS = (1 << 64) - 1


def uleb(value: int) -> bytes:
    """An unsigned LEB128 number, in as few bytes as it takes."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


class Reader:
    """Fields of `data` from `at` up to, not including, `end`. Every method raises ValueError past the end."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at = data, at
        self.end = len(data) if end is None else min(end, len(data))

    def number(self, size: int) -> int:
        """An unsigned number of `size` bytes."""
        at = self.at
        self.skip(size)
        return int.from_bytes(self.data[at : at + size], "little")

    def skip(self, size: int) -> None:
        """Pass over `size` bytes."""
        if not 0 <= size <= self.end - self.at:
            raise ValueError("cut short")
        self.at += size

    def uleb(self) -> int:
        """An unsigned LEB128 number below 2**64."""
        # Without a call for each byte: tables of abbreviations are hundreds of thousands of them.
        value, data, end = 0, self.data, self.end
        for shift in range(0, 64, 7):
            if not 0 <= self.at < end:
                raise ValueError("cut short")
            byte = data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _64_BITS
        raise ValueError("too long a number")

    def sleb(self) -> int:
        """A signed LEB128 number."""
        first = self.at
        value = self.uleb()
        bits = 7 * (self.at - first)
        return value - (1 << bits) if self.data[self.at - 1] & 0x40 else value

    def string(self) -> bytes:
        """The bytes up to a zero byte, which is passed over."""
        stop = self.data.find(b"\0", self.at, min(self.end, self.at + LONGEST_NAME + 1))
        if stop < 0:
            raise ValueError("a string without its end")
        text = self.data[self.at : stop]
        self.at = stop + 1
        return text

    def length(self) -> tuple[int, int]:
        """(bytes that follow, bytes of an offset in them) of a unit."""
        length = self.number(4)
        return (self.number(8), 8) if length == LONG_FORM else (length, 4)
