"""The sections of a file that hold debug information: unpacked as far as they are read, and no further than
a bound.

They may be plain, compressed as the ELF specification says, or as GNU tools did before it (`.zdebug_line`).
"""

from __future__ import annotations

import io
import zlib

from elftools.elf.elffile import ELFFile

from corebraid.names.symbols import ELF_DAMAGE

#: Bytes that all compressed sections of a file become at most, and how many are made at once.
_MOST_UNPACKED, _AT_ONCE = 256 << 20, 1 << 18
_MOST_SECTIONS = 1 << 16
#: See `Effort`.
MOST_EFFORT = 1 << 25
_ZLIB, _HEADER = 1, 24
_GNU_MAGIC, _GNU_HEADER = b"ZLIB", 12


class TooLarge(ValueError):
    """What is asked for lies beyond a bound; the message says which."""


class Effort:
    """What may still be looked at of debug information, in bytes of it: some ten seconds of work. Of all
    files of a command together, and each as often as it is looked at."""

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self._most = self._left = most

    def spend(self, size: int) -> None:
        """So many bytes are looked at. Raises TooLarge where that is too much."""
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"more than {self._most >> 20} MiB of debug information to be looked at")


class _Room:
    """What may still be unpacked of a file, bytes."""

    def __init__(self) -> None:
        self.left = _MOST_UNPACKED


class Section:
    """A section. packed: it is zlib's, else it lies in the file as it is."""

    def __init__(self, data: bytes = b"", *, packed: bool = False, room: _Room | None = None) -> None:
        self._plain = bytearray() if packed else data
        self._rest = data if packed else b""
        self._unpack = zlib.decompressobj() if packed else None
        self._room = room or _Room()

    def part(self, at: int, size: int) -> bytes:
        """Up to `size` bytes from `at` on; fewer at its end. Raises ValueError if it is damaged, TooLarge."""
        if at + size > len(self._plain):
            self._reach(at + size)
        return bytes(self._plain[at : at + size])

    def whole(self, most: int = _MOST_UNPACKED) -> bytes:
        """All of it. Raises ValueError where it is damaged; TooLarge if it has more than `most` bytes."""
        data = self.part(0, most + 1)
        if len(data) > most:
            raise TooLarge(f"a section of more than {most >> 20} MiB")
        return data

    def _reach(self, size: int) -> None:
        while self._unpack is not None and len(self._plain) < size:
            try:
                piece = self._unpack.decompress(self._rest, _AT_ONCE)
            except zlib.error:
                raise ValueError("it cannot be unpacked") from None
            self._rest = self._unpack.unconsumed_tail
            if not piece:
                self._unpack = None
                return
            self._room.left -= len(piece)
            if self._room.left < 0:
                raise TooLarge(f"compressed sections of more than {_MOST_UNPACKED >> 20} MiB")
            assert isinstance(self._plain, bytearray)
            self._plain += piece


class DebugSections:
    """The debug sections of the ELF file `raw`. names: of those that it has, as if none was compressed.
    effort: what looking at them may take."""

    def __init__(self, raw: bytes, effort: Effort | None = None) -> None:
        self._raw, self._room = raw, _Room()
        self.effort = effort or Effort()
        self._places: dict[str, tuple[int, int, bool, bool]] = {}
        self._opened: dict[str, Section] = {}
        try:
            elf = ELFFile(io.BytesIO(raw))
            count = elf.num_sections()
            for section in elf.iter_sections() if count <= _MOST_SECTIONS else ():
                name = section.name
                if name.startswith((".debug_", ".zdebug_")):
                    old, header = name.startswith(".z"), section.header
                    place = header["sh_offset"], header["sh_size"], bool(header["sh_flags"] & 0x800), old
                    self._places.setdefault(name.replace(".zdebug_", ".debug_"), place)
        except ELF_DAMAGE:
            # What was found so far is there.
            pass
        self.names = frozenset(self._places)

    def section(self, name: str) -> Section:
        """A section; empty if the file has none. Raises ValueError if it is packed in no known way."""
        if name not in self._opened:
            self._opened[name] = self._open(name) if name in self._places else Section()
        return self._opened[name]

    def _open(self, name: str) -> Section:
        first, size, packed, old = self._places[name]
        data = self._raw[first : first + size]
        if old:
            if data[:4] != _GNU_MAGIC:
                raise ValueError("it is packed in no way that is known")
            return Section(data[_GNU_HEADER:], packed=True, room=self._room)
        if packed and int.from_bytes(data[:4], "little") != _ZLIB:
            raise ValueError("it is packed in no way that is known")
        return Section(data[_HEADER:] if packed else data, packed=packed, room=self._room)
