"""Functions at an address, and calls that were compiled into them: against pyelftools' entries."""

from __future__ import annotations

import io
import random
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cli_factory import ROOT, elf
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile
from stack_factory import elf_with

from corebraid.names.debug_entries.scopes import Scopes
from corebraid.names.debug_sections import Effort
from corebraid.names.left_out import told_left_out
from corebraid.names.lines import LineTable

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
NAMES = ("abort_now", "crash", "segv_handler", "mutexes")


def spans(entry: Any, dwarf: Any) -> list[tuple[int, int]]:
    """Where an entry's code is, as pyelftools reads it."""
    low, high = entry.attributes.get("DW_AT_low_pc"), entry.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        return [(low.value, high.value + (0 if high.form == "DW_FORM_addr" else low.value))]
    ranges = entry.attributes.get("DW_AT_ranges")
    if ranges is None:
        return []
    base = entry.cu.get_top_DIE().attributes["DW_AT_low_pc"].value
    found = []
    for one in dwarf.range_lists().get_range_list_at_offset(ranges.value, entry.cu):
        if isinstance(one, BaseAddressEntry):
            base = one.base_address
            continue
        shift = 0 if one.is_absolute else base
        found.append((one.begin_offset + shift, one.end_offset + shift))
    return found


def naive(raw: bytes) -> Iterator[tuple[list[tuple[int, int]], str, int]]:
    """(where its code is, name, how deep) of each function and call compiled in, from the entries of all."""
    dwarf = ELFFile(io.BytesIO(raw)).get_dwarf_info()

    def name(entry: Any) -> str:
        while "DW_AT_name" not in entry.attributes:
            origin = [
                one for one in ("DW_AT_abstract_origin", "DW_AT_specification") if one in entry.attributes
            ]
            entry = entry.get_DIE_from_attribute(origin[0])
        text: str = entry.attributes["DW_AT_name"].value.decode()
        return text

    def below(entry: Any, depth: int) -> Iterator[tuple[list[tuple[int, int]], str, int]]:
        for child in entry.iter_children():
            is_function = child.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")
            if is_function and (where := spans(child, dwarf)):
                yield where, name(child), depth
            yield from below(child, depth + is_function)

    for unit in dwarf.iter_CUs():
        yield from below(unit.get_top_DIE(), 0)


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_those_that_pyelftools_reads(name: str) -> None:
    raw = (PROGRAMS / name).read_bytes()
    scopes, every = Scopes(LineTable(raw)), list(naive(raw))
    starts = {begin for where, _, _ in every for begin, _ in where}
    for address in sorted(starts | {start + 3 for start in starts}):
        here = [(n, depth) for where, n, depth in every if any(a <= address < b for a, b in where)]
        expected = [n for n, _ in sorted(here, key=lambda one: -one[1])]
        assert [scope.name for scope in scopes.at(address)] == expected, hex(address)
    assert len(starts) > 3


def test_a_call_that_was_compiled_in_says_where_from() -> None:
    raw = (PROGRAMS / "abort_now").read_bytes()
    inner = [where for where, name, depth in naive(raw) if depth]
    scopes = Scopes(LineTable(raw)).at(inner[0][0][0])
    assert len(scopes) == 2
    assert scopes[0].called.startswith("abort_now.c:")
    assert scopes[1].called == ""


def test_where_nothing_tells() -> None:
    raw = (PROGRAMS / "crash").read_bytes()
    for table in (LineTable(raw), LineTable(elf()), LineTable(b"no ELF"), LineTable(elf_with({}))):
        assert Scopes(table).at(1) == Scopes(table).at(1 << 63) == []
    begin = next(naive(raw))[0][0][0]
    with told_left_out() as said:
        assert Scopes(LineTable(raw, "crash", Effort(400))).at(begin) == []
    assert said
    assert all("crash are left out: more than 0 MiB" in one for one in said)


def test_an_entry_that_asks_for_all_bytes_is_counted() -> None:
    """One attribute of two million bytes, each of which would become a number."""
    size = 2 << 20
    abbreviations = b"\x01\x11\x01\x11\x01\x12\x07\x00\x00" + b"\x02\x2e\x00\x1c\x04\x00\x00" + b"\x00"
    body = b"\x01" + struct.pack("<QQ", 0x1000, 0x100) + b"\x02" + struct.pack("<I", size) + bytes(size + 1)
    unit = struct.pack("<HIB", 4, 0, 8) + body
    info = struct.pack("<I", len(unit)) + unit
    sections = {".debug_info": info, ".debug_abbrev": abbreviations, ".debug_line": b""}
    raw = elf_with({name: (data, 0) for name, data in sections.items()})
    began = time.monotonic()
    with told_left_out() as said:
        assert Scopes(LineTable(raw, "a.out", Effort(1 << 20))).at(0x1000) == []
    assert said == ["functions of a.out are left out: more than 1 MiB of debug information to be looked at"]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("seed", range(3))
def test_changed_bytes_do_no_harm(seed: int) -> None:
    draw, raw = random.Random(seed), (PROGRAMS / "segv_handler").read_bytes()
    places = [
        (section["sh_offset"], section["sh_size"])
        for section in ELFFile(io.BytesIO(raw)).iter_sections()
        if section.name in (".debug_info", ".debug_abbrev", ".debug_rnglists", ".debug_aranges")
    ]
    addresses, began = [where[0][0] for where, _, _ in naive(raw)], time.monotonic()
    for _ in range(80):
        changed = bytearray(raw)
        for at, size in places:
            for _ in range(draw.choice((0, 1, 3, 20))):
                byte = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
                changed[at + draw.randrange(size)] = byte
        scopes = Scopes(LineTable(bytes(changed)))
        for address in draw.sample(addresses, 5):
            for scope in scopes.at(address):
                assert isinstance(scope.name, str)
    assert time.monotonic() - began < 60
