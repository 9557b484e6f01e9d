"""The sections of an ELF file of some types, and no others."""

from __future__ import annotations

from collections.abc import Iterator

from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section


def sections_of(elf: ELFFile, *kinds: str) -> Iterator[Section]:
    """Those whose type (`sh_type`, as pyelftools names it) is one of these, in their order. Raises what
    pyelftools raises on damaged input.

    `ELFFile.iter_sections` makes all of them first, and of a hash table that is to read every entry.
    """
    for number in range(elf.num_sections()):
        place = elf["e_shoff"] + number * elf["e_shentsize"]
        if struct_parse(elf.structs.Elf_Shdr, elf.stream, place)["sh_type"] in kinds:
            yield elf.get_section(number)
