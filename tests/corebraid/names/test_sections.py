"""Sections of some types against those of pyelftools, and that no others are read."""

from __future__ import annotations

import io

import pytest
from elftools.elf import elffile
from elftools.elf.elffile import ELFFile
from linux_guest_factory import PROGRAMS

from corebraid.names.call_stubs import call_stubs
from corebraid.names.sections import sections_of
from corebraid.names.symbols import read_symbols

RAW = (PROGRAMS / "mutexes").read_bytes()


@pytest.mark.parametrize(
    "kinds", [("SHT_DYNSYM",), ("SHT_RELA", "SHT_PROGBITS"), ("SHT_SYMTAB", "SHT_NOTE"), ()]
)
def test_they_are_those_of_these_types_in_their_order(kinds: tuple[str, ...]) -> None:
    elf = ELFFile(io.BytesIO(RAW))
    expected = [section for section in elf.iter_sections() if section["sh_type"] in kinds]
    found = list(sections_of(elf, *kinds))
    assert [(one.name, one.header) for one in found] == [(one.name, one.header) for one in expected]
    assert bool(found) == bool(kinds)


def test_hash_tables_are_not_read_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a C library they have ten thousand entries."""
    symbols, stubs = read_symbols(RAW), call_stubs(RAW)
    assert symbols
    assert stubs

    def read(*_: object) -> None:
        raise AssertionError("a hash table is read")

    monkeypatch.setattr(elffile, "GNUHashSection", read)
    with pytest.raises(AssertionError, match="a hash table is read"):
        list(ELFFile(io.BytesIO(RAW)).iter_sections())
    assert (read_symbols(RAW), call_stubs(RAW)) == (symbols, stubs)
