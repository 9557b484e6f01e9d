"""Variables that are always at one address, and their types (DWARF 5, section 4.1)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

from corebraid.names.debug_entries.entries import ENTRY_DAMAGE, DebugEntries, Entry, why_left_out
from corebraid.names.debug_entries.types import Types
from corebraid.names.debug_sections import DebugSections, Effort
from corebraid.names.dwarf_fields import uleb
from corebraid.names.left_out import tell_left_out
from corebraid.names.units import Unit, iter_units

_INFO, _VARIABLE = ".debug_info", "DW_TAG_variable"
#: Bytes of debug information that are looked at for a file's variables, and units of it, at most: two seconds
#: of work.
_MOST_EFFORT, _MOST_UNITS, _MOST_BYTES = 1 << 22, 1 << 15, 1 << 27
#: So much faster, as a power of two, is a search in bytes than reading entries.
_FAST = 9
#: An expression of 9 bytes: DW_OP_addr and an address; DW_OP_addrx, before the number of one in
#: `.debug_addr`.
_ADDRESS, _INDEXED = b"\x09\x03", b"\xa1"
_ADDRESSES, _ADDRESS_BYTES = ".debug_addr", 8
#: Places in `.debug_info` that look like the address of a variable, and need not be.
_MOST_PLACES = 16
_Answer = TypeVar("_Answer")


class Variables:
    """Those of the ELF file `raw`. name: what it is called in messages."""

    def __init__(self, raw: bytes, name: str) -> None:
        self._sections, self._name = DebugSections(raw, Effort(_MOST_EFFORT)), name
        self._entries = DebugEntries(self._sections)
        self._types = Types(self._entries)
        self._known: dict[int, Entry | None] = {}

    @property
    def known(self) -> bool:
        """Whether there is anything that tells of variables."""
        return _INFO in self._sections.names

    def part(self, address: int, offset: int) -> str | None:
        """What follows the name of the variable at `address`, as the file counts it, for the byte at `offset`
        of it (`Types.path`); None where nothing tells."""
        return self._asked(address, lambda kind: self._types.path(kind, offset))

    def place(self, address: int, path: Sequence[str | int]) -> tuple[int, int] | None:
        """(offset, bytes) of the part that a path leads to (`Types.place`) of the variable at `address`, as
        the file counts it; None where there is none, or nothing tells."""
        return self._asked(address, lambda kind: self._types.place(kind, path))

    def atomic(self, address: int, offset: int) -> bool:
        """Whether the byte at `offset` of the variable at `address`, as the file counts it, is of something
        that is declared as atomic (`Types.atomic`)."""
        return bool(self._asked(address, lambda kind: self._types.atomic(kind, offset)))

    def _asked(self, address: int, ask: Callable[[Entry | None], _Answer]) -> _Answer | None:
        """What the type of the variable at `address` tells; None where nothing does."""
        if not self.known:
            return None
        try:
            if address not in self._known:
                self._known[address] = self._variable(address)
            variable = self._known[address]
            return None if variable is None else ask(self._types.type_of(variable))
        except ENTRY_DAMAGE as error:
            why = why_left_out(error, self._sections.effort)
            tell_left_out(f"types of variables of {self._name} are left out: {why}")
            self._known[address] = None
            return None

    @cached_property
    def _info(self) -> bytes:
        return self._sections.section(_INFO).whole(_MOST_BYTES)

    @cached_property
    def _addresses(self) -> bytes:
        return self._sections.section(_ADDRESSES).whole(_MOST_BYTES)

    @cached_property
    def _units(self) -> list[Unit]:
        return list(iter_units(self._sections, _MOST_UNITS))

    @cached_property
    def _by_addresses(self) -> list[tuple[int, Unit]]:
        """The units that have addresses in `.debug_addr`, by where these begin."""
        found = [(unit.addresses, unit) for unit in self._units if unit.addresses is not None]
        return sorted(found, key=lambda one: one[0])

    def _variable(self, address: int) -> Entry | None:
        """Its entry is where its address is written: so no entries but those around it are read."""
        for at in islice(self._places(address.to_bytes(_ADDRESS_BYTES, "little")), _MOST_PLACES):
            unit = bisect_right(self._units, at, key=lambda one: one.offset) - 1
            found = (
                self._entry_around(self._entries.unit(self._units[unit].offset), at) if unit >= 0 else None
            )
            if found is not None and found.tag == _VARIABLE:
                return found
        return None

    def _places(self, address: bytes) -> Iterator[int]:
        """Where in `.debug_info` the address of a variable may be written."""
        yield from self._found(self._info, _ADDRESS + address, 0, len(self._info))
        for at in self._found(self._addresses, address, 0, len(self._addresses)):
            index = bisect_right(self._by_addresses, at, key=lambda one: one[0]) - 1
            if index >= 0:
                start, unit = self._by_addresses[index]
                wanted = _INDEXED + uleb((at - start) // _ADDRESS_BYTES)
                yield from self._found(self._info, bytes([len(wanted)]) + wanted, unit.offset, unit.end)

    def _found(self, data: bytes, wanted: bytes, start: int, end: int) -> Iterator[int]:
        while True:
            self._sections.effort.spend((end - start >> _FAST) + 1)
            start = data.find(wanted, start, end)
            if start < 0:
                return
            yield start
            start += 1

    def _entry_around(self, entry: Entry, at: int) -> Entry | None:
        """The innermost entry below `entry` whose own bytes hold the place `at` of the section."""
        inner: Entry | None = entry
        while inner is not None:
            if inner.offset <= at < inner.offset + inner.size:
                return inner
            inner = next((e for e, end in self._entries.spans(inner) if at < end), None)
        return None
