"""An object file that Numba made, laid out as an `Image`.

Numba compiles for the large code model, so such a file has one kind of relocation: the address of a symbol, 8
bytes wherever it is wanted (System V ABI, AMD64 supplement, 4.4.1: number 1, S + A). Unwind tables are left
out: nothing unwinds through kernels.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from io import BytesIO
from typing import Any

from elftools.elf.elffile import ELFFile

from corebraid.base.compiled.image import Image

_ALLOCATED, _WRITTEN = 2, 1
_ABSOLUTE = 1
_UNWINDING = ".eh_frame"
_LEAST_ALIGNMENT, _POINTER = 16, 8


class UnknownObject(ValueError):
    """An object file with what is not known here."""


def image_of(object_file: bytes, wanted: Callable[[str], bool]) -> Image:
    """Lay out an ELF relocatable file. wanted: whether a symbol of its own is to be known by name. Raises
    UnknownObject."""
    layout = _Layout(ELFFile(BytesIO(object_file)))
    symbols = layout.symbols()
    inside, outside = layout.relocations(symbols)
    known = {name: at for name, at in symbols if name and at is not None and wanted(name)}
    return Image(bytes(layout.code), layout.end - len(layout.code), known, inside, outside)


class _Layout:
    """Where sections come to lie: first what is only read, then, on pages of its own, what is written."""

    def __init__(self, elf: ELFFile) -> None:
        self._elf, self.code = elf, bytearray()
        self._starts: dict[int, int] = {}
        written = []
        for number, section in enumerate(elf.iter_sections()):
            if not section["sh_flags"] & _ALLOCATED or section.name == _UNWINDING:
                continue
            if section["sh_flags"] & _WRITTEN:
                written.append((number, section))
                continue
            self.code += bytes(-len(self.code) % max(section["sh_addralign"], _LEAST_ALIGNMENT))
            self._starts[number] = len(self.code)
            self.code += section.data()
        self.code += bytes(-len(self.code) % mmap.PAGESIZE)
        self.end = len(self.code)
        for number, section in written:
            if section["sh_type"] != "SHT_NOBITS" and any(section.data()):
                raise UnknownObject(f"section {section.name} has contents")
            self._starts[number] = self._take(section["sh_size"], section["sh_addralign"])

    def _take(self, size: int, alignment: int) -> int:
        start = self.end + -self.end % max(alignment, _POINTER)
        self.end = start + size
        return start

    def symbols(self) -> list[tuple[str, int | None]]:
        """(name, offset) of each; None of those that are elsewhere."""
        table: Any = self._elf.get_section_by_name(".symtab")
        return [(symbol.name, self._place(symbol)) for symbol in table.iter_symbols()]

    def _place(self, symbol: Any) -> int | None:
        where, at = symbol["st_shndx"], symbol["st_value"]
        if where == "SHN_COMMON":
            return self._take(symbol["st_size"], at)
        start = self._starts.get(where) if isinstance(where, int) else None
        return None if start is None else start + at

    def relocations(
        self, symbols: list[tuple[str, int | None]]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, str, int]]]:
        """`Image.inside` and `Image.outside`."""
        inside: list[tuple[int, int]] = []
        outside: list[tuple[int, str, int]] = []
        for start, relocation in self._relocations():
            if relocation["r_info_type"] != _ABSOLUTE:
                raise UnknownObject(f"a relocation of type {relocation['r_info_type']}")
            place, added = start + relocation["r_offset"], relocation["r_addend"]
            name, found = symbols[relocation["r_info_sym"]]
            if found is not None:
                inside.append((place, found + added))
            elif name:
                outside.append((place, name, added))
            else:
                raise UnknownObject("a relocation to nothing")
        return inside, outside

    def _relocations(self) -> list[tuple[int, Any]]:
        found = []
        for section in self._elf.iter_sections():
            of: Any = section
            if section["sh_type"] == "SHT_RELA" and section["sh_info"] in self._starts:
                found += [(self._starts[section["sh_info"]], one) for one in of.iter_relocations()]
            elif section["sh_type"] in ("SHT_REL", "SHT_RELA") and not section.name.endswith(_UNWINDING):
                raise UnknownObject(f"section {section.name}")
        return found
