"""The frame tables of an ELF file: which entry tells of an address. Read when asked, nothing is trusted."""

from __future__ import annotations

import io
from bisect import bisect_right
from functools import cached_property

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from corebraid.names.debug_sections import DebugSections, Effort
from corebraid.names.dwarf_fields import Reader
from corebraid.names.left_out import tell_left_out
from corebraid.names.sections import sections_of
from corebraid.names.symbols import ELF_DAMAGE
from corebraid.names.unwinding.entries import Entries, Entry, FrameSection
from corebraid.names.unwinding.pointers import read_pointer

_TABLE, _INDEX, _DEBUG = ".eh_frame", ".eh_frame_hdr", ".debug_frame"
_TYPE = "SHT_PROGBITS"
#: How linkers write the index: a count of 4 bytes, then pairs of distances from where it begins.
_COUNT, _PAIRS = 0x03, 0x3B
_PAIR = np.dtype([("begin", "<i4"), ("entry", "<i4")])


class FrameTables:
    """Of the ELF file `raw`. name: what it is called in messages. effort: what looking at it may take. kind:
    that sections of frame tables may have besides the usual one, as pyelftools names it."""

    def __init__(
        self, raw: bytes, name: str = "the program", effort: Effort | None = None, kind: str = _TYPE
    ) -> None:
        self._raw, self._name, self._effort, self._kind = raw, name, effort or Effort(), kind

    def entry(self, address: int) -> Entry | None:
        """What is said of the code at an address, as the file counts addresses; None: nothing."""
        for table in self._tables:
            try:
                found = table.entry(address)
            except ValueError as error:
                self._leave_out(error)
                continue
            if found is not None:
                return found
        return None

    def _leave_out(self, error: ValueError) -> None:
        tell_left_out(f"frame tables of {self._name} are left out: {error}")

    @cached_property
    def _tables(self) -> list[_Table]:
        found: list[_Table] = []
        try:
            elf = ELFFile(io.BytesIO(self._raw))
            parts = {one.name: one for one in sections_of(elf, _TYPE, self._kind)}
            if _TABLE in parts:
                section = FrameSection(self._part(parts[_TABLE]), parts[_TABLE]["sh_addr"])
                index = parts.get(_INDEX)
                header = (self._part(index), index["sh_addr"]) if index is not None else None
                found.append(_Table(section, header, self._effort))
        except ELF_DAMAGE:
            tell_left_out(f"frame tables of {self._name} are left out: the file is damaged")
        try:
            debug = DebugSections(self._raw, self._effort).section(_DEBUG).whole()
            if debug:
                found.append(_Table(FrameSection(debug, 0, True), None, self._effort))
        except ValueError as error:
            self._leave_out(error)
        return found

    def _part(self, section: object) -> bytes:
        header = section.header  # type: ignore[attr-defined]
        return self._raw[header["sh_offset"] : header["sh_offset"] + header["sh_size"]]


class _Table:
    """One section. header: bytes and address of its index, if there is one."""

    def __init__(self, section: FrameSection, header: tuple[bytes, int] | None, effort: Effort) -> None:
        self._entries, self._section, self._effort = Entries(section), section, effort
        self._header = header

    def entry(self, address: int) -> Entry | None:
        """Raises ValueError where the section is damaged."""
        offset = self._listed(address) if self._index is not None else self._found(address)
        if offset is None:
            return None
        entry = self._entries.at(offset)
        return entry if entry.begin <= address < entry.end else None

    @cached_property
    def _index(self) -> NDArray[np.void] | None:
        """The pairs of the index, ascending; None without one that can be read."""
        if self._header is None:
            return None
        data, address = self._header
        reader = Reader(data)
        try:
            version, table, count, pairs = (reader.number(1) for _ in range(4))
            if (version, count, pairs) != (1, _COUNT, _PAIRS):
                return None
            read_pointer(reader, table, address)
            size = reader.number(4) * _PAIR.itemsize
        except ValueError:
            return None
        part = data[reader.at : reader.at + size]
        return np.frombuffer(part, _PAIR) if len(part) == size else None

    def _listed(self, address: int) -> int | None:
        assert self._index is not None
        assert self._header is not None
        base = self._header[1]
        at = int(np.searchsorted(self._index["begin"], address - base, side="right")) - 1
        if at < 0:
            return None
        return base + int(self._index["entry"][at]) - self._section.address

    @cached_property
    def _spans(self) -> list[tuple[int, int, int]]:
        self._effort.spend(len(self._section.data))
        return sorted(self._entries.spans())

    def _found(self, address: int) -> int | None:
        at = bisect_right(self._spans, (address, 1 << 64, 0)) - 1
        return self._spans[at][2] if at >= 0 and address < self._spans[at][1] else None
