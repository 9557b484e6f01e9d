"""Which function the code at an address is of, and which calls were compiled into it (DWARF 5, section
3.3.8)."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.names.debug_entries.entries import ENTRY_DAMAGE, DebugEntries, Entry, why_left_out
from corebraid.names.left_out import tell_left_out
from corebraid.names.lines import LineTable

_FUNCTION, _INLINED = "DW_TAG_subprogram", "DW_TAG_inlined_subroutine"
#: What functions may be in, and what a call that was compiled in may be in.
_AROUND = (
    "DW_TAG_namespace", "DW_TAG_module", "DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type",
)  # fmt: skip
_BLOCKS = ("DW_TAG_lexical_block", "DW_TAG_try_block", "DW_TAG_catch_block", _INLINED)
_NAMES = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")


@dataclass(frozen=True)
class Scope:
    """A function at an address. name: as its debug information has it, mangled if that is so; '' where it has
    none. called: 'file.c:42' of the call, for one that was compiled into its caller, else ''. blocks:
    its entry, and those of the blocks in it that are around the address, from the outermost on."""

    name: str
    called: str
    blocks: tuple[Entry, ...]


class Scopes:
    """Those of a file, whose lines are `table`."""

    def __init__(self, table: LineTable) -> None:
        self._table = table
        self.entries = DebugEntries(table.sections)

    def at(self, address: int) -> list[Scope]:
        """The functions whose code is at an address, as the file counts it, from the innermost on; none where
        nothing tells. The last one was called, the others compiled into the one behind them."""
        try:
            unit = self._table.unit_of(address)
            function = None if unit is None else self._function(self.entries.unit(unit), address)
            return [] if function is None else self._inside(function, address)[::-1]
        except ENTRY_DAMAGE as error:
            why = why_left_out(error, self._table.sections.effort)
            tell_left_out(f"functions of {self._table.name} are left out: {why}")
            return []

    def _function(self, unit: Entry, address: int) -> Entry | None:
        around = [unit]
        while around:
            for entry in self.entries.children(around.pop()):
                if entry.tag == _FUNCTION and self.entries.covers(entry, address):
                    return entry
                if entry.tag in _AROUND and entry.has_children:
                    around.append(entry)
        return None

    def _inside(self, function: Entry, address: int) -> list[Scope]:
        """The function and what was compiled into it, from the outermost on."""
        found = [[function]]
        scope: Entry | None = function
        while scope is not None:
            inner = (e for e in self.entries.children(scope) if e.tag in _BLOCKS)
            scope = next((e for e in inner if self.entries.covers(e, address)), None)
            if scope is not None and scope.tag == _INLINED:
                found.append([scope])
            elif scope is not None:
                found[-1].append(scope)
        return [self._scope(blocks) for blocks in found]

    def _scope(self, blocks: list[Entry]) -> Scope:
        entries, first = self.entries, blocks[0]
        name = next((text for one in _NAMES if (text := entries.text(first, one))), "")
        called = ""
        if first.tag == _INLINED:
            file, line = (entries.number(first, f"DW_AT_call_{what}") or 0 for what in ("file", "line"))
            called = self._table.of_unit(first.cu.cu_offset, file, line)
        return Scope(name, called, tuple(blocks))
