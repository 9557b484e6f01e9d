"""Symbols of code and data: against a naive lookup, an ELF reader's table, and tables that are missing."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE, elf
from elftools.elf.elffile import ELFFile

from corebraid.names.devices import device_symbols
from corebraid.names.program import UNKNOWN, WRITTEN, GuestProgram
from corebraid.names.symbols import Symbol, Symbols, with_offset
from emu.board.elf import load_image
from isa.x86_64.registers import X86_64


def naive(symbols: list[Symbol], address: int) -> str:
    """The symbol that begins last, and then ends first, of those that hold the address."""
    holding = [symbol for symbol in symbols if symbol.address <= address < symbol.address + symbol.size]
    if not holding:
        return ""
    best = max(holding, key=lambda symbol: (symbol.address, -symbol.size, symbol.name))
    return with_offset(best.name, address - best.address)


def test_lookup_is_the_naive_one() -> None:
    """Symbols side by side, nested, overlapping and at one address."""
    for seed in range(60):
        choose = random.Random(seed)
        longest = choose.choice([10, 60, 200])
        symbols = [Symbol(choose.randint(1, 400), choose.randint(1, longest), f"s{k}") for k in range(12)]
        table = Symbols(symbols)
        index, offset = table.find(np.arange(700, dtype=np.uint64))
        for address in range(700):
            near, inside = int(index[address]), int(offset[address])
            found = "" if near < 0 else with_offset(table.names[near], inside)
            assert found == naive(symbols, address), f"seed {seed}, address {address}"


def test_the_highest_addresses_do_not_wrap() -> None:
    top = (1 << 64) - 8
    table = Symbols([Symbol(top, 8, "top"), Symbol(16, 8, "low")])
    assert table.name((1 << 64) - 1) == "top+0x7"
    assert table.name(top - 1) == ""
    assert table.name(0) == ""


def test_labels_without_a_size() -> None:
    function, inside = Symbol(0x10, 0x20, "function"), Symbol(0x18, 0, "inside")
    table = Symbols([function, inside, Symbol(0x40, 0, "asm"), Symbol(0x50, 4, "next")])
    assert table.name(0x1C) == "function+0xc"
    assert table.name(0x4F) == "asm+0xf"
    assert table.name(0x54) == ""
    assert Symbols([Symbol(8, 0, "a"), Symbol(8, 4, "b")]).name(9) == "b+0x1"
    assert Symbols([Symbol(8, 0, "a"), Symbol(8, 0, "b"), Symbol(12, 0, "c")]).name(9) in ("a+0x1", "b+0x1")


@pytest.mark.parametrize("path", sorted(FIRMWARE.glob("*.elf")), ids=lambda path: path.stem)
def test_every_function_and_object_of_the_firmware_is_found(path: Path) -> None:
    table = Symbols.of_elf(path.read_bytes(), device_symbols())
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".symtab")
        wanted = [s for s in section.iter_symbols() if s["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT")]
    assert wanted
    symbols = [Symbol(s["st_value"], s["st_size"], s.name) for s in wanted]
    for symbol in symbols:
        assert table.named(symbol.name) in symbols
        for address in (symbol.address, symbol.address + symbol.size - 1):
            assert table.name(address) == naive(symbols, address) != ""
    assert table.name(0xF0000010) == "POWER_OFF"


def test_a_program_without_a_symbol_table_has_no_names() -> None:
    table = Symbols.of_elf(elf())
    assert list(table.names) == []
    assert table.name(0x100000) == ""
    index, offset = table.find(np.array([1, 2], np.uint64))
    assert index.tolist() == [-1, -1]
    assert offset.tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_symbol_table_is_no_error(seed: int) -> None:
    raw = bytearray((FIRMWARE / "fig1.elf").read_bytes())
    choose = random.Random(seed)
    start = int.from_bytes(raw[40:48], "little")
    for _ in range(20):
        raw[choose.randrange(start, len(raw))] = choose.randrange(256)
    for name in Symbols.of_elf(bytes(raw)).names:
        assert isinstance(name, str), f"seed {seed}"


def test_instructions_come_from_the_program(tmp_path: Path) -> None:
    path = tmp_path / "x.elf"
    path.write_bytes(elf(bytes.fromhex("90ebfd"), flags=5))
    image, raw = load_image(path, X86_64, 64 << 20)
    program = GuestProgram(image, Symbols.of_elf(raw))
    assert program.instruction(0x100000) == "nop"
    assert program.instruction(0x100001) == "jmp 0x100000"
    assert program.instruction(0x300000) == UNKNOWN
    path.write_bytes(elf(bytes.fromhex("90ebfd"), flags=7))
    image, raw = load_image(path, X86_64, 64 << 20)
    assert GuestProgram(image, Symbols.of_elf(raw)).instruction(0x100000) == WRITTEN
    assert GuestProgram(None, Symbols([])).instruction(0x100000) == UNKNOWN
