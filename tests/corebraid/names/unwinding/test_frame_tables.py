"""Frame tables: against pyelftools' own reading, with and without an index, and damaged."""

from __future__ import annotations

import io
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_factory import ROOT
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from stack_factory import RBP, RETURN, RSP, FrameTable, elf_with, frame, kept, sleb, uleb

from corebraid.names.debug_sections import Effort
from corebraid.names.left_out import told_left_out
from corebraid.names.unwinding.frame_tables import FrameTables
from corebraid.names.unwinding.rules import Kind, Rule, Rules, rules_at

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
NAMES = ("crash", "segv_handler", "static_hello", "static_pie_threads", "tls_module.so")


def rows_of(raw: bytes) -> Iterator[tuple[int, dict[object, object]]]:
    """(address, row) of every row that pyelftools decodes."""
    for entry in ELFFile(io.BytesIO(raw)).get_dwarf_info().EH_CFI_entries():
        if not isinstance(entry, FDE):
            continue
        try:
            table = entry.get_decoded().table
        except ValueError:
            # Of DW_CFA_val_expression it knows nothing.
            continue
        end = entry["initial_location"] + entry["address_range"]
        last = {row["pc"]: row for row in table if row["pc"] < end}
        yield from last.items()


def told(row: dict[object, object]) -> Rules:
    """A row of pyelftools' as we have it."""
    cfa = row["cfa"]
    if cfa.reg is None:  # type: ignore[attr-defined]
        found = Rule(Kind.VALUE_EXPRESSION, code=bytes(cfa.expr))  # type: ignore[attr-defined]
    else:
        found = Rule(Kind.REGISTER, cfa.offset, cfa.reg)  # type: ignore[attr-defined]
    registers = {}
    for number, rule in row.items():
        if isinstance(number, int):
            registers[number] = {
                "OFFSET": lambda arg: Rule(Kind.OFFSET, arg),
                "UNDEFINED": lambda arg: Rule(Kind.UNDEFINED),
                "SAME": lambda arg: Rule(Kind.SAME),
                "REGISTER": lambda arg: Rule(Kind.REGISTER, register=arg),
                "EXPRESSION": lambda arg: Rule(Kind.EXPRESSION, code=bytes(arg)),
            }[rule.type](rule.arg)  # type: ignore[attr-defined]
    return Rules(found, registers)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_the_one_that_pyelftools_reads(name: str) -> None:
    raw = (PROGRAMS / name).read_bytes()
    tables, checked = FrameTables(raw), 0
    for address, row in rows_of(raw):
        entry = tables.entry(address)
        assert entry is not None
        assert rules_at(entry, address) == told(row), hex(address)
        checked += 1
    assert checked > 5


@pytest.mark.parametrize("name", ["crash", "segv_handler", "static_pie_threads"])
def test_without_an_index_the_same_is_found(name: str) -> None:
    raw = (PROGRAMS / name).read_bytes()
    bare = FrameTables(raw.replace(b".eh_frame_hdr\0", b".eh_frame_hdx\0"))
    whole, starts = FrameTables(raw), [address for address, _ in rows_of(raw)]
    assert whole._tables[0]._index is not None
    assert bare._tables[0]._index is None
    for address in {0, 1, *starts, *(start - 1 for start in starts), 1 << 40}:
        assert whole.entry(address) == bare.entry(address)


def test_what_debuggers_read_is_read_where_there_is_no_other() -> None:
    """A `.debug_frame` of two versions, in 32 and 64 bits."""
    instructions = frame(RSP, 8) + kept(RETURN, 8)
    common = bytes([4]) + b"\0" + bytes([8, 0]) + uleb(1) + sleb(-8) + uleb(RETURN) + instructions
    data = struct.pack("<II", len(common) + 4, 0xFFFFFFFF) + common
    second = len(data)
    old = bytes([1]) + b"\0" + uleb(1) + sleb(-8) + bytes([RETURN]) + instructions
    data += struct.pack("<IQQ", 0xFFFFFFFF, len(old) + 8, (1 << 64) - 1) + old
    data += struct.pack("<IIQQ", 20, 0, 0x1000, 0x10)
    data += struct.pack("<IQQQQ", 0xFFFFFFFF, 24, second, 0x2000, 0x20)
    tables = FrameTables(elf_with({".debug_frame": (data, 0)}))
    for address, begin in ((0x1000, 0x1000), (0x100F, 0x1000), (0x201F, 0x2000)):
        entry = tables.entry(address)
        assert entry is not None
        assert entry.begin == begin
        assert rules_at(entry, address).registers == {RETURN: Rule(Kind.OFFSET, -8)}
    assert tables.entry(0x1010) is tables.entry(0x2020) is tables.entry(0xFFF) is None


def test_instructions_made_by_hand() -> None:
    table = FrameTable()
    common = table.common(frame(RSP, 8) + kept(RETURN, 8) + kept(RBP, 16))
    code = (
        b"\x41" + b"\x0e\x10" + b"\x0a"  # one byte on: a frame of 16 bytes, remembered
        + b"\x02\x03" + b"\x0d\x06" + b"\x07\x03"  # 3 further: by another register, one undefined
        + b"\x03\x04\x00" + b"\x0b" + b"\xc6" + b"\x08\x0c"  # 4 further: as remembered; one restored
        + b"\x04\x08\x00\x00\x00" + b"\x12\x07\x7e" + b"\x09\x03\x05"  # 8 further: -2 * -8; a register
        + b"\x41" + b"\x14\x03\x02" + b"\x15\x05\x7f" + b"\x16\x06\x01\x30"  # values
        + b"\x41" + b"\x05\x03\x02" + b"\x11\x05\x7f" + b"\x10\x06\x01\x31" + b"\x2e\x20" + b"\x2f\x08\x03"
        + b"\x41" + b"\x0f\x02\x77\x08" + b"\x06\x06" + b"\x13\x01"
    )  # fmt: skip
    raw = table.code(common, 0x1000, 0x1100, code).elf()
    entry = FrameTables(raw).entry(0x1000)
    assert entry is not None

    def at(address: int) -> tuple[Rule, dict[int, Rule]]:
        found = rules_at(entry, address)
        kinds = {n: rule for n, rule in found.registers.items() if n not in (RETURN,)}
        return found.frame, kinds

    stored = {RBP: Rule(Kind.OFFSET, -16)}
    assert at(0x1000) == (Rule(Kind.REGISTER, 8, RSP), stored)
    assert at(0x1001) == at(0x1003) == (Rule(Kind.REGISTER, 16, RSP), stored)
    assert at(0x1004) == (Rule(Kind.REGISTER, 16, RBP), stored | {3: Rule(Kind.UNDEFINED)})
    assert at(0x1008) == (Rule(Kind.REGISTER, 16, RSP), stored | {12: Rule(Kind.SAME)})
    assert at(0x1010)[0] == Rule(Kind.REGISTER, 16, RSP)
    assert at(0x1010)[1][3] == Rule(Kind.REGISTER, register=5)
    values = at(0x1011)[1]
    assert (values[3], values[5]) == (Rule(Kind.VALUE_OFFSET, -16), Rule(Kind.VALUE_OFFSET, 8))
    assert values[6] == Rule(Kind.VALUE_EXPRESSION, code=b"\x30")
    places = at(0x1012)[1]
    assert (places[3], places[5]) == (Rule(Kind.OFFSET, -16), Rule(Kind.OFFSET, 8))
    assert (places[6], places[8]) == (Rule(Kind.EXPRESSION, code=b"\x31"), Rule(Kind.OFFSET, 24))
    # A frame by an expression has no number that could be changed.
    with pytest.raises(ValueError, match="no register's"):
        at(0x1013)


@pytest.mark.parametrize("code", [b"\x0b", b"\x3f", b"\x0e\x08", b"\x10\x06\x7f", b"\x0a" * 100])
def test_damaged_instructions(code: bytes) -> None:
    table = FrameTable()
    entry = FrameTables(table.code(table.common(), 0x1000, 0x1100, code).elf()).entry(0x1000)
    assert entry is not None
    with pytest.raises(ValueError, match=r"[a-z]"):
        rules_at(entry, 0x1000)


def test_damage_is_told_once_and_tells_nothing() -> None:
    table = FrameTable()
    common = table.common(letters="eh")
    tables = FrameTables(table.code(common, 0x1000, 0x1100).elf(), "a.out")
    with told_left_out() as said:
        assert tables.entry(0x1000) is tables.entry(0x1001) is None
    assert said == ["frame tables of a.out are left out: an augmentation that is not known"]
    assert FrameTables(b"no ELF").entry(0x1000) is None
    assert FrameTables(elf_with({})).entry(0x1000) is None


def test_what_looking_may_take_is_bounded() -> None:
    table = FrameTable()
    table.code(table.common(), 0x1000, 0x1100)
    with told_left_out() as said:
        assert FrameTables(table.elf(), effort=Effort(8)).entry(0x1000) is None
    assert len(said) == 1
    table.data += struct.pack("<II", 4, 0) * 300_000
    with told_left_out() as said:
        assert FrameTables(table.elf()).entry(0x1000) is None
    assert "262144 entries" in said[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes_do_no_harm(seed: int, tmp_path: Path) -> None:
    """Bytes of the tables and their index are changed: something, or nothing, is told, in short time."""
    draw = random.Random(seed)
    raw = (PROGRAMS / "segv_handler").read_bytes()
    places = {}
    for section in ELFFile(io.BytesIO(raw)).iter_sections():
        if section.name.startswith(".eh_frame"):
            places[section.name] = (section["sh_offset"], section["sh_size"])
    addresses = [address for address, _ in rows_of(raw)]
    began = time.monotonic()
    for _ in range(150):
        changed = bytearray(raw)
        for name, (at, size) in places.items():
            for _ in range(draw.choice((1, 4, 40)) if name == ".eh_frame" else draw.choice((0, 0, 3))):
                changed[at + draw.randrange(size)] = draw.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256))
                )
        tables = FrameTables(bytes(changed))
        for address in draw.sample(addresses, 10):
            entry = tables.entry(address)
            if entry is not None:
                try:
                    rules_at(entry, address)
                except ValueError:
                    continue
    assert time.monotonic() - began < 60
