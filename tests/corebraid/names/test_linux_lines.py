"""Lines of source: against pyelftools' own reading, tables made by hand, and tables that are damaged."""

from __future__ import annotations

import io
import random
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from cli_factory import ROOT, elf
from elftools.elf.elffile import ELFFile

from corebraid.names.aranges import Range, read_aranges
from corebraid.names.line_program import Strings, read_lines
from corebraid.names.lines import Lines, LineTable, PlacedLines

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
ANY_REASON = r"[a-z]"
NAMES = ("mutexes", "jit", "affinity", "bug_aba", "tls_module.so")


def dwarf_of(name: str):  # type: ignore[no-untyped-def]
    """pyelftools' view of a program."""
    return ELFFile(io.BytesIO((PROGRAMS / name).read_bytes())).get_dwarf_info()


def starts_of(raw: bytes) -> list[int]:
    """Where the code of units begins."""
    aranges = ELFFile(io.BytesIO(raw)).get_section_by_name(".debug_aranges")
    return sorted(one.begin for one in read_aranges(aranges.data()))


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_the_one_that_pyelftools_reads(name: str) -> None:
    table = LineTable((PROGRAMS / name).read_bytes())
    assert table.known
    dwarf = dwarf_of(name)
    checked = 0
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        expected: dict[int, tuple[int, bytes]] = {}
        for entry in program.get_entries():
            state = entry.state
            if state is not None and not state.end_sequence:
                expected[state.address] = (state.line, program["file_entry"][state.file].name)
        for address, (line, file) in expected.items():
            found = table.at(address)
            assert found.endswith(f"{file.decode()}:{line}") or (not line and not found), hex(address)
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("name", NAMES)
def test_units_are_where_pyelftools_finds_them(name: str) -> None:
    dwarf = dwarf_of(name)
    entries = dwarf.get_aranges().entries
    expected = sorted(Range(e.begin_addr, e.begin_addr + e.length, e.info_offset) for e in entries)
    assert sorted(read_aranges(dwarf.debug_aranges_sec.stream.getvalue())) == expected != []


def test_units_that_no_index_lists_are_found_by_their_entries() -> None:
    """A section of another name is as good as none."""
    raw = (PROGRAMS / "mutexes").read_bytes()
    bare = LineTable(raw.replace(b".debug_aranges\0", b".debug_brangez\0"))
    whole = LineTable(raw)
    starts = starts_of(raw)
    assert [bare.at(start) for start in starts] == [whole.at(start) for start in starts]
    assert any(whole.at(start) for start in starts)


def test_lines_are_found_where_a_file_was_placed() -> None:
    table = LineTable((PROGRAMS / "mutexes").read_bytes())
    first = starts_of((PROGRAMS / "mutexes").read_bytes())[-1]
    bias = 0x7000_0000
    lines = Lines([PlacedLines(bias, bias + 0x10000, bias, table)])
    assert lines.known
    assert lines.at(first + bias) == table.at(first) != ""
    assert lines.at(first) == lines.at(bias + 0x10000) == lines.at(bias - 1) == ""
    assert Lines().at(first) == ""
    assert not LineTable(elf()).known
    assert LineTable(elf()).at(0x100000) == ""
    assert LineTable(b"no ELF").at(0) == ""


# -- made by hand ----------------------------------------------------------------------------------------

#: Opcode base 13, line base -5, line range 14: as gcc writes.
_LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])


def program(version: int, tables: bytes, code: bytes) -> bytes:
    """A unit of .debug_line."""
    fixed = bytes([1]) + (b"\x01" if version >= 4 else b"") + bytes([1, 0xFB, 14, 13]) + _LENGTHS
    head = (b"\x08\x00" if version == 5 else b"") + (len(fixed) + len(tables)).to_bytes(4, "little")
    body = version.to_bytes(2, "little") + head + fixed + tables + code
    return len(body).to_bytes(4, "little") + body


def set_address(address: int) -> bytes:
    """DW_LNE_set_address."""
    return b"\x00\x09\x02" + address.to_bytes(8, "little")


END = b"\x00\x01\x01"
#: From 0x1000: line 10; 4 bytes further line 11 (special opcode); then file 2, line 11, 9 bytes; end after 6.
CODE = (
    set_address(0x1000) + b"\x03\x09\x01"
    + bytes([13 + 4 * 14 + 5 + 1])
    + b"\x04\x02\x02\x09\x01" + b"\x02\x06" + END
)  # fmt: skip
OLD = b"include\0/usr/lib\0\0" + b"main.c\0\0\0\0" + b"list.h\0\x01\0\0" + b"/abs.h\0\x02\0\0" + b"\0"
#: Directories and files by DW_FORM_line_strp and udata, with an MD5 of each file, as clang writes.
NEW_STRINGS = Strings(b"/build\0include\0main.c\0list.h\0")
NEW = (
    b"\x01\x01\x1f\x02" + (0).to_bytes(4, "little") + (7).to_bytes(4, "little")
    + b"\x03\x01\x1f\x02\x0b\x05\x1e\x03"
    + b"".join(at.to_bytes(4, "little") + bytes([d]) + bytes(16) for at, d in ((15, 0), (15, 0), (22, 1)))
)  # fmt: skip


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_program_made_by_hand(version: int) -> None:
    strings, tables = (NEW_STRINGS, NEW) if version == 5 else (Strings(), OLD)
    found = read_lines(b"junk" + program(version, tables, CODE), 4, strings)
    texts = {address: found.text(row) for address, row in sorted(found.rows.items())}
    assert texts == {0x1000: "main.c:10", 0x1004: "main.c:11", 0x100D: "include/list.h:11", 0x1013: ""}


def test_sequences_side_by_side_and_code_that_was_thrown_away() -> None:
    second = set_address(0x1013) + b"\x03\x63\x01\x02\x02" + END
    gone = set_address(0) + b"\x03\x07\x01\x02\x20" + END
    for code in (CODE + second + gone, gone + second + CODE):
        found = read_lines(program(4, OLD, code), 0, Strings())
        texts = [found.text(row) for _, row in sorted(found.rows.items())]
        assert texts == ["main.c:10", "main.c:11", "include/list.h:11", "", ""]
        assert min(found.rows) == 0x1000


def test_opcodes_that_are_not_known_are_passed_over() -> None:
    unknown = b"\x00\x03\x80\x01\x02" + b"\x0c\x05" + b"\x07" + b"\x05\x11" + b"\x00\x02\x04\x07"
    found = read_lines(program(4, OLD, unknown + CODE), 0, Strings())
    assert found.text(found.rows[0x1000]) == "main.c:10"


def test_files_that_do_not_exist_are_not_named() -> None:
    found = read_lines(program(4, OLD, set_address(0x1000) + b"\x04\x63\x01\x02\x01" + END), 0, Strings())
    assert found.text(found.rows[0x1000]) == "?:1"
    harm = b"\0" + b"\x1b[31m.c\0\0\0\0" + b"\0"
    found = read_lines(program(4, harm, set_address(0x1000) + b"\x01\x02\x01" + END), 0, Strings())
    assert found.text(found.rows[0x1000]) == "?[31m.c:1"


# -- damage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5])
def test_a_program_cut_anywhere_is_one_kind_of_error(version: int) -> None:
    strings, tables = (NEW_STRINGS, NEW) if version == 5 else (Strings(), OLD)
    whole = program(version, tables, CODE)
    for size in range(len(whole)):
        with pytest.raises(ValueError, match=ANY_REASON):
            read_lines(whole[:size], 0, strings)
        damaged = (size - 4).to_bytes(4, "little", signed=size < 4) + whole[4:size]
        with suppress(ValueError):
            read_lines(damaged, 0, strings)


def test_numbers_in_a_header_take_no_memory() -> None:
    """Nor time: counted to, such numbers would keep this test for ever."""
    tracemalloc.start()
    huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    for tables in (b"\x00" + huge, b"\x01\x01\x1f" + huge, b"\x00\x00\x01\x01\x1f" + huge, b"\xff" + huge):
        with pytest.raises(ValueError, match=ANY_REASON):
            read_lines(program(5, tables, CODE), 0, NEW_STRINGS)
    for code in (b"\x02" + huge, b"\x03" + huge, b"\x00" + huge, b"\x04" + huge, b"\xff" * 3):
        with suppress(ValueError):
            read_lines(program(4, OLD, code + b"\x01" + END), 0, Strings())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize("seed", range(25))
def test_a_damaged_file_tells_some_lines_or_none(seed: int) -> None:
    raw = bytearray((PROGRAMS / "jit").read_bytes())
    choose = random.Random(seed)
    elf_file = ELFFile(io.BytesIO(bytes(raw)))
    sections = [s for s in elf_file.iter_sections() if s.name.startswith(".debug")]
    for _ in range(30):
        section = choose.choice(sections)
        raw[section["sh_offset"] + choose.randrange(section["sh_size"])] = choose.randrange(256)
    if seed % 5 == 0:
        raw = raw[: choose.randrange(len(raw))]
    table = LineTable(bytes(raw))
    for address in range(0x1000, 0x1800, 3):
        assert isinstance(table.at(address), str)


def test_damaged_indexes_of_units_end() -> None:
    for data in (b"", b"\0" * 4096, b"\xff" * 4096, bytes(range(256)) * 16):
        assert all(isinstance(one, Range) for one in read_aranges(data))


def test_no_file_beside_the_recording_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may name files with its debug information; none of them is read."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was opened")

    raw = (PROGRAMS / "mutexes").read_bytes()
    linked = raw.replace(b".debug_aranges\0", b".gnu_debuglink\0")
    monkeypatch.chdir(tmp_path)
    for opener in ("builtins.open", "io.open", "os.open"):
        monkeypatch.setattr(opener, refuse)
    LineTable(linked).at(0x1400)


# -- tables that are larger than they look -----------------------------------------------------------------


def test_a_table_of_more_than_any_compiler_writes_is_none() -> None:
    """A few kilobytes of compressed section may be these."""
    row = bytes([13 + 14 + 5])
    rows = program(4, OLD, set_address(0x1000) + row * ((1 << 20) + 1) + END)
    files = program(4, b"\0" + b"f\0\0\0\0" * ((1 << 16) + 1) + b"\0", END)
    directories = program(4, b"d\0" * ((1 << 16) + 1) + b"\0\0", END)
    nothing = program(4, OLD, set_address(0x1000) + b"\x0a" * (16 << 20) + END)
    for table in (rows, files, directories, nothing):
        with pytest.raises(ValueError, match="too"):
            read_lines(table, 0, Strings())
    fewer = program(4, OLD, set_address(0x1000) + row * 1000 + END)
    assert len(read_lines(fewer, 0, Strings()).rows) == 1000


def test_units_that_were_decoded_do_not_all_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corebraid.names.lines._MOST_KEPT", 300)
    raw = (PROGRAMS / "mutexes").read_bytes()
    table = LineTable(raw)
    starts = starts_of(raw)
    found = [table.at(start) for start in starts]
    assert found == [LineTable(raw).at(start) for start in starts]
    assert len(table._decoded) == 1 or sum(map(len, table._decoded.values())) <= 300
