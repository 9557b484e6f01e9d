"""Sections of debug information that are packed, damaged or larger than they look: lines, or a sentence."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from cli_factory import ROOT, run
from elftools.elf.elffile import ELFFile

from corebraid.names.aranges import Range
from corebraid.names.debug_sections import DebugSections, Effort, TooLarge
from corebraid.names.left_out import tell_left_out, told_left_out
from corebraid.names.lines import LineTable

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
PLAIN, ZLIB, GNU, ZSTD = "plain", "zlib", "gnu", "zstd"


def packed(raw: bytes, how: str, size: int | None = None) -> bytes:
    """A section as it is in a file. size: what it says that it becomes."""
    n = len(raw) if size is None else size
    if how == GNU:
        return b"ZLIB" + n.to_bytes(8, "big") + zlib.compress(raw, 9)
    kind = {ZLIB: 1, ZSTD: 2}.get(how, 0)
    return struct.pack("<IIQQ", kind, 0, n, 1) + zlib.compress(raw, 9) if kind else raw


def elf_of(sections: dict[str, tuple[bytes, str]]) -> bytes:
    """An ELF file of debug sections: of each its bytes as they are in the file, and how they are packed."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in sections) + b".shstrtab\0"
    body, headers = b"", bytes(64)
    for name, (data, how) in sections.items():
        flags = 0x800 if how in (ZLIB, ZSTD) else 0
        at = 64 + len(body)
        headers += struct.pack(
            "<IIQQQQIIQQ", names.index(name.encode() + b"\0"), 1, flags, 0, at, len(data), 0, 0, 1, 0
        )
        body += data
    at = 64 + len(body)
    headers += struct.pack("<IIQQQQIIQQ", names.index(b".shstr"), 3, 0, 0, at, len(names), 0, 0, 1, 0)
    body += names
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    counts = (64, 0, 0, 64, len(sections) + 2, len(sections) + 1)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, 64 + len(body), 0, *counts) + body + headers


def sections_of(program: str) -> dict[str, bytes]:
    """The debug sections of one of our programs."""
    elf = ELFFile(io.BytesIO((PROGRAMS / program).read_bytes()))
    return {one.name: one.data() for one in elf.iter_sections() if one.name.startswith(".debug_")}


def repacked(sections: dict[str, bytes], how: str) -> bytes:
    """They, packed in some way."""
    prefix = ".zdebug_" if how == GNU else ".debug_"
    return elf_of(
        {name.replace(".debug_", prefix): (packed(raw, how), how) for name, raw in sections.items()}
    )


def lines_of(raw: bytes) -> list[str]:
    table = LineTable(raw)
    return [table.at(address) for address in range(0x1000, 0x2000, 2)]


@pytest.mark.parametrize("how", [PLAIN, ZLIB, GNU])
@pytest.mark.parametrize("indexed", [True, False])
def test_lines_are_the_same_however_they_are_packed(how: str, indexed: bool) -> None:
    sections = sections_of("mutexes")
    if not indexed:
        del sections[".debug_aranges"]
    with told_left_out() as told:
        found = lines_of(repacked(sections, how))
    assert found == lines_of((PROGRAMS / "mutexes").read_bytes())
    assert any(found)
    assert not told


def test_no_more_is_unpacked_than_is_asked_for() -> None:
    sections = sections_of("mutexes")
    sections[".debug_line"] += bytes(64 << 20)
    raw = repacked(sections, ZLIB)
    assert len(raw) < 100_000
    tracemalloc.start()
    table = LineTable(raw)
    assert any(table.at(address) for address in range(0x1000, 0x2000, 2))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


#: Attributes of a unit: DW_AT_ranges and DW_AT_stmt_list, both DW_FORM_sec_offset.
_SHORT = bytes((1, 0x11, 0, 0x55, 0x17, 0x10, 0x17, 0, 0, 0))
_RANGE = struct.pack("<QQ", (1 << 64) - 1, 0)


def of_units(n: int, abbreviations: bytes, ranges: bytes = b"") -> bytes:
    """A file of so many units, each of which has to be looked at."""
    body = struct.pack("<HIB", 4, 0, 8) + b"\1" + bytes(8)
    unit = struct.pack("<I", len(body)) + body
    sections = {".debug_info": unit * n, ".debug_abbrev": abbreviations, ".debug_ranges": ranges}
    return elf_of({name: (raw, PLAIN) for name, raw in {**sections, ".debug_line": bytes(64)}.items()})


@pytest.mark.parametrize(
    "raw",
    [of_units(200, b"\2\x11\0" + b"\1\1" * 9000), of_units(20, _SHORT, _RANGE * 20_000 + bytes(16))],
    ids=["abbreviations", "ranges that select a base"],
)
def test_what_looking_at_units_takes_is_bounded(raw: bytes) -> None:
    """Each unit's is small. Files share what they may take."""
    with told_left_out() as told:
        assert LineTable(raw, effort=Effort(100 << 20)).at(0x1000) == ""
    assert not told
    effort = Effort(1 << 20)
    for name in ("first", "second"):
        with told_left_out() as told:
            assert LineTable(raw, name, effort).at(0x1000) == ""
        assert told == [
            f"lines of {name} are left out: .debug_info: more than 1 MiB of debug information to be looked at"
        ]


def with_program_of(size: int) -> dict[str, bytes]:
    """Sections whose first line program says that it has so many bytes."""
    sections = sections_of("mutexes")
    body = sections[".debug_line"][4:]
    sections[".debug_line"] = size.to_bytes(4, "little") + body + bytes(max(0, size - len(body)))
    return sections


@pytest.mark.parametrize(
    ("sections", "how", "told"),
    [
        (with_program_of(64 << 20), ZLIB, "programs of more than"),
        (with_program_of(64 << 20), GNU, "programs of more than"),
        (with_program_of(5 << 20), ZLIB, "too long a program"),
        (sections_of("mutexes"), ZSTD, "no way that is known"),
        ({**sections_of("mutexes"), ".debug_line": b"\xff" * 100}, PLAIN, ".debug_line"),
        ({**sections_of("mutexes"), ".debug_aranges": bytes(17 << 20)}, ZLIB, ".debug_aranges"),
        (
            {**sections_of("mutexes"), ".debug_info": b"\x01" * 4000, ".debug_aranges": b""},
            PLAIN,
            ".debug_info",
        ),
    ],
)
def test_what_is_left_out_is_told_once(sections: dict[str, bytes], how: str, told: str) -> None:
    raw = repacked(sections, how)
    with told_left_out() as found:
        lines_of(raw)
        lines_of(raw)
    assert any(told in one for one in found), found
    assert len(found) == len(set(found))
    assert all(one.startswith("lines of the program are left out: ") for one in found)


def test_a_bomb_in_any_section_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corebraid.names.debug_sections._MOST_UNPACKED", 1 << 20)
    for name in sections_of("mutexes"):
        sections = {**sections_of("mutexes"), name: bytes(4 << 20)}
        for how in (ZLIB, GNU):
            found = DebugSections(repacked(sections, how)).section(name)
            with pytest.raises(TooLarge, match="more than"):
                found.whole()
            assert all(isinstance(line, str) for line in lines_of(repacked(sections, how)))


def test_empty_ranges_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many units may have the same long list of them."""
    sections = sections_of("mutexes")
    del sections[".debug_aranges"]
    sections[".debug_info"] *= 20
    empty = [Range(5, 5, 0)] * 100
    monkeypatch.setattr("corebraid.names.lines.code_of", lambda *_: empty)
    for most, told in ((10_000_000, False), (1000, True)):
        monkeypatch.setattr("corebraid.names.lines._MOST_RANGES", most)
        with told_left_out() as found:
            assert LineTable(repacked(sections, PLAIN)).at(0x1000) == ""
        assert any("ranges of code" in one for one in found) == told


def test_units_without_an_index_are_looked_at_as_far_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = sections_of("mutexes")
    del sections[".debug_aranges"]
    first = repacked(sections, PLAIN)
    sections[".debug_info"] += sections[".debug_info"] * 40
    many, table = repacked(sections, PLAIN), None
    monkeypatch.setattr("corebraid.names.lines._MOST_UNITS", 20)
    table = LineTable(many)
    known = next(address for address in range(0x1000, 0x2000) if LineTable(first).at(address))
    with told_left_out() as told:
        assert table.at(known) == LineTable(first).at(known)
        assert not told
        assert table.at(0x7FFF_0000) == ""
    assert told == ["lines of the program are left out: .debug_info: more than 20 units"]


def test_what_is_told_outside_of_a_command_goes_nowhere() -> None:
    tell_left_out("nobody hears it")
    with told_left_out() as told:
        pass
    assert told == []


def test_a_command_says_it_once_on_stderr_and_in_its_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rec = tmp_path / "rec"
    monkeypatch.setattr("corebraid.names.lines._MOST_RUN", 10)
    ran = run("record", "-o", rec, "--json", PROGRAMS / "crash")
    sentence = "lines of crash are left out: .debug_line: programs of more than 0 MiB"
    assert ran.code == 3
    assert ran.lines.count(f"corebraid: {sentence}") == 1
    assert json.loads(ran.out[ran.out.index("{") :])["left_out"] == [sentence]
    monkeypatch.undo()
    again = run("trace", rec, "--core", 0)
    assert again.code == 0
    assert "left out" not in again.err
