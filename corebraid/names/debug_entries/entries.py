"""The entries of `.debug_info` (DWARF 5, section 2), as pyelftools reads them, and no more of them than is
bounded."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from elftools.common.exceptions import DWARFError
from elftools.construct import ConstructError
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.enums import ENUM_DW_AT, ENUM_DW_FORM

from corebraid.names.aranges import Range
from corebraid.names.debug_entries.location_lists import expression_at
from corebraid.names.debug_sections import DebugSections, Effort, TooLarge
from corebraid.names.symbols import ELF_DAMAGE, printable
from corebraid.names.units import Unit, code_of_entry, iter_units, read_unit

#: What reading entries may raise where they are damaged.
ENTRY_DAMAGE = (*ELF_DAMAGE, DWARFError, ConstructError, NotImplementedError, RuntimeError)
#: Most bytes of a section, most units, and what a look at an entry, or a read of some bytes, takes at least.
_MOST_BYTES, _MOST_UNITS, _LOOK = 1 << 27, 1 << 15, 8
_ADDRESS_BYTES = 8
#: An entry stands for another, which may stand for a third (DW_AT_abstract_origin, DW_AT_specification).
_MOST_ORIGINS = 8
_ORIGINS = ("DW_AT_abstract_origin", "DW_AT_specification")
_CODE = ("DW_AT_low_pc", "DW_AT_high_pc", "DW_AT_ranges")
_SECTIONS = ("info", "abbrev", "str", "line_str", "addr", "str_offsets", "loc", "loclists", "rnglists")
#: What pyelftools wants to be told of besides; None: it is not there.
_ABSENT = (
    "debug_aranges_sec", "debug_frame_sec", "eh_frame_sec", "debug_ranges_sec", "debug_line_sec",
    "debug_pubtypes_sec", "debug_pubnames_sec", "debug_sup_sec", "gnu_debugaltlink_sec", "debug_types_sec",
)  # fmt: skip

#: An entry, as pyelftools has it.
Entry = Any


def why_left_out(error: Exception, effort: Effort) -> str:
    """In words, of one of `ENTRY_DAMAGE`: pyelftools wraps what it meets in errors of its own."""
    try:
        effort.spend(0)
    except TooLarge as bound:
        return str(bound)
    return str(error) if isinstance(error, ValueError) else "they are damaged"


class _Counted(io.BytesIO):
    """Bytes of a section, each read of which is counted: a few bytes may ask for all of them."""

    def __init__(self, data: bytes, effort: Effort) -> None:
        super().__init__(data)
        self._effort = effort

    def read(self, size: int | None = -1, /) -> bytes:
        """As of any stream. Raises TooLarge where that is too much."""
        found = super().read(size)
        self._effort.spend(max(len(found), _LOOK))
        return found


class DebugEntries:
    """Those of a file. Every method raises one of `ENTRY_DAMAGE` where they are damaged, of which TooLarge is
    one, or where they use what is not read here: entries of other files."""

    def __init__(self, sections: DebugSections) -> None:
        self._sections = sections
        self._units: dict[int, Unit] = {}

    @cached_property
    def _dwarf(self) -> DWARFInfo:
        found = {f"debug_{name}_sec": self._section(f".debug_{name}") for name in _SECTIONS}
        return DWARFInfo(DwarfConfig(True, "", _ADDRESS_BYTES), **found, **dict.fromkeys(_ABSENT))

    def _section(self, name: str) -> DebugSectionDescriptor | None:
        if name not in self._sections.names:
            return None
        data = self._sections.section(name).whole(_MOST_BYTES)
        return DebugSectionDescriptor(_Counted(data, self._sections.effort), name, 0, len(data), 0)

    def unit(self, offset: int) -> Entry:
        """The outermost entry of the unit at `offset`."""
        return self._dwarf.get_CU_at(offset).get_top_DIE()

    def children(self, entry: Entry) -> Iterator[Entry]:
        """The entries that it owns."""
        return (child for child, _ in self.spans(entry))

    def spans(self, entry: Entry) -> Iterator[tuple[Entry, int]]:
        """The same, and where each ends, with all that it owns itself."""
        at = entry.offset + entry.size
        while entry.has_children:
            child = self._at(entry.cu, at)
            if child.is_null():
                return
            at = self._behind(child)
            yield child, at

    def _at(self, unit: Any, offset: int) -> Entry:
        self._sections.effort.spend(_LOOK)
        return unit.get_DIE_from_refaddr(offset)

    def _behind(self, entry: Entry) -> int:
        """Where what follows an entry, and all that it owns, is."""
        depth = 0
        while True:
            at = entry.offset + entry.size
            if entry.is_null():
                depth -= 1
            elif entry.has_children:
                sibling = entry.attributes.get("DW_AT_sibling")
                if sibling is None or sibling.form == "DW_FORM_ref_addr":
                    depth += 1
                else:
                    at = entry.cu.cu_offset + sibling.raw_value
                    if at <= entry.offset:
                        raise ValueError("an entry before its sibling")
            if depth <= 0:
                return int(at)
            entry = self._at(entry.cu, at)

    # -- what they say ---------------------------------------------------------------------------------------

    def referred(self, entry: Entry, attribute: str) -> Entry | None:
        """The entry that an attribute names; None: it has no such attribute."""
        value = entry.attributes.get(attribute)
        if value is None:
            return None
        if value.form != "DW_FORM_ref_addr":
            return entry.get_DIE_from_attribute(attribute)
        index = bisect_right(self._offsets, value.raw_value) - 1
        return self._dwarf.get_CU_at(self._offsets[max(index, 0)]).get_DIE_from_refaddr(value.raw_value)

    @cached_property
    def _offsets(self) -> list[int]:
        return [unit.offset for unit in iter_units(self._sections, _MOST_UNITS)]

    def origins(self, entry: Entry) -> Iterator[Entry]:
        """The entry, and those that it stands for."""
        for _ in range(_MOST_ORIGINS):
            yield entry
            found = [name for name in _ORIGINS if name in entry.attributes]
            origin = self.referred(entry, found[0]) if found else None
            if origin is None:
                return
            entry = origin

    def attribute(self, entry: Entry, name: str) -> Any:
        """An attribute of the entry, or of one that it stands for; None: there is none."""
        return next((o.attributes[name] for o in self.origins(entry) if name in o.attributes), None)

    def number(self, entry: Entry, name: str) -> int | None:
        """The number that an attribute is; None: it is none."""
        found = self.attribute(entry, name)
        return found.value if found is not None and isinstance(found.value, int) else None

    def text(self, entry: Entry, name: str) -> str:
        """The text that an attribute is, or ''."""
        found = self.attribute(entry, name)
        return printable(found.value) if found is not None and isinstance(found.value, bytes) else ""

    def code(self, entry: Entry) -> list[Range]:
        """The ranges of its code."""
        values = {
            ENUM_DW_AT[name]: (ENUM_DW_FORM[value.form], value.raw_value)
            for name in _CODE
            if (value := entry.attributes.get(name)) is not None
        }
        return code_of_entry(self._sections, self._unit_of(entry), values) if values else []

    def _unit_of(self, entry: Entry) -> Unit:
        offset = entry.cu.cu_offset
        if offset not in self._units:
            self._units[offset] = read_unit(self._sections, offset)
        return self._units[offset]

    def location(self, entry: Entry, name: str, address: int) -> tuple[bytes, bool] | None:
        """(the expression that an attribute is for the instruction at an address, whether it is the same for
        all); None: there is none."""
        found = self.attribute(entry, name)
        if found is None:
            return None
        if isinstance(found.value, list):
            return bytes(found.value), True
        value = ENUM_DW_FORM[found.form], found.raw_value
        code = expression_at(self._sections, self._unit_of(entry), value, address)
        return None if code is None else (code, False)

    def covers(self, entry: Entry, address: int) -> bool:
        """Whether its code is at an address."""
        return any(one.begin <= address < one.end for one in self.code(entry))
