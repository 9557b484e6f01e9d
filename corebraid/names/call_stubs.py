"""Names for what a linker makes to call into libraries: `malloc@plt` is the stub, `malloc@got` the pointer it
reads (`isa.call_stubs`). Symbol tables do not have them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile

from corebraid.names.sections import sections_of
from corebraid.names.symbols import ELF_DAMAGE, Symbol, symbol_names
from isa.call_stubs import CallStubs
from isa.registry import call_stubs_of

_RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_POINTER_BYTES = 8


def call_stubs(raw: bytes) -> list[Symbol]:
    """The stubs and their pointers of an ELF file; of one that cannot be read, none."""
    try:
        elf = ELFFile(io.BytesIO(raw))
        kind = call_stubs_of(elf["e_machine"])
        if kind is None:
            return []
        pointers = dict(_pointers(elf, raw, kind))
        found = [Symbol(place, _POINTER_BYTES, f"{name}@got") for place, name in pointers.items()]
        return found + list(_stubs(elf, raw, kind, pointers))
    except ELF_DAMAGE:
        return []


def _part(raw: bytes, section: Any) -> bytes:
    return raw[section["sh_offset"] : section["sh_offset"] + section["sh_size"]]


def _pointers(elf: ELFFile, raw: bytes, kind: CallStubs) -> Iterator[tuple[int, str]]:
    """(address, name of the symbol that it points to)."""
    for section in sections_of(elf, "SHT_RELA"):
        data = _part(raw, section)
        rows = np.frombuffer(data[: len(data) - len(data) % _RELOCATION.itemsize], _RELOCATION)
        rows = rows[np.isin(rows["kind"], kind.pointers) & (rows["symbol"] != 0)]
        names = symbol_names(raw, elf.get_section(section["sh_link"]), rows["symbol"].tolist())
        yield from ((place, name) for place, name in zip(rows["offset"].tolist(), names, strict=True) if name)


def _stubs(elf: ELFFile, raw: bytes, kind: CallStubs, pointers: dict[int, str]) -> Iterator[Symbol]:
    code = {section.name: section for section in sections_of(elf, "SHT_PROGBITS")}
    for title in kind.sections:
        section = code.get(title)
        if section is None:
            continue
        size, first = section["sh_entsize"] or kind.stub_bytes, section["sh_addr"]
        for jump in re.finditer(kind.jump, _part(raw, section), re.DOTALL):
            distance = int.from_bytes(jump.group(1), "little", signed=True)
            name = pointers.get(first + jump.start() + kind.jump_bytes + distance)
            if name is not None:
                yield Symbol(first + jump.start() // size * size, size, f"{name}@plt")
