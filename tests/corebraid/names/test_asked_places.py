"""Names that are printed are accepted: back to the address that they were printed of."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import FIRMWARE

import corebraid
from corebraid.base.errors import UsageError
from corebraid.names.asked_places import AskedPlaces
from corebraid.names.program import GuestProgram
from corebraid.names.selection import AddressRange
from corebraid.names.symbols import Symbol, Symbols


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> GuestProgram:
    """A Linux program with debug information."""
    path: Path = tmp_path_factory.mktemp("asked") / "rec"
    corebraid.record(FIRMWARE.parent / "linux" / "x86_64" / "bug_atomicity", path, cores=2, limit=300_000)
    return GuestProgram.of(path, corebraid.open_recording(path).manifest)


def test_what_is_printed_is_accepted(program: GuestProgram) -> None:
    places, symbol = AskedPlaces(program), program.symbols.named("balances")
    assert symbol is not None
    assert places.addresses("balances") == AddressRange(symbol.address, symbol.address + symbol.size)
    parts = 0
    for offset in range(symbol.size):
        name = program.data_names.name(symbol.address + offset)
        found = places.addresses(name)
        parts += found.high - found.low > 1
        assert found.low == symbol.address + offset, name
    assert parts
    code = program.symbols.named("take")
    assert code is not None
    assert places.addresses("take+0x5").low == code.address + 5
    assert places.instruction("take+5") == (AddressRange(code.address + 5, code.address + 6),)


def test_lines_are_their_code(program: GuestProgram) -> None:
    places, code = AskedPlaces(program), program.symbols.named("take")
    assert code is not None
    lines = {program.lines.at(pc) for pc in range(code.address, code.address + code.size)} - {""}
    whole = list[str]()
    for line in sorted(lines):
        spans = places.instruction(line)
        inside = {pc for one in spans for pc in range(one.low, one.high)}
        expected = {
            pc for pc in range(code.address, code.address + code.size) if program.lines.at(pc) == line
        }
        assert expected <= inside
        assert all(program.lines.at(pc) == line for pc in inside)
        if len(spans) == 1:
            low = spans[0].low
            assert places.bytes_of(f"{line}:3", 8) == AddressRange(low, low + 3)
            whole.append(line)
    for text in (f"{whole[0]}:0", f"{whole[0]}:x"):
        with pytest.raises(UsageError, match="not a number of bytes"):
            places.bytes_of(text, 8)
    with pytest.raises(UsageError, match="no code of the line"):
        places.instruction("bug_atomicity.c:9999")


def test_functions_are_all_their_parts() -> None:
    symbols = Symbols(
        [Symbol(0x10, 8, "f"), Symbol(0x40, 4, "f.cold"), Symbol(0x60, 4, "g.part.0"), Symbol(0x70, 4, "fx")]
    )
    places = AskedPlaces(GuestProgram(None, symbols))
    assert places.function("f") == (AddressRange(0x10, 0x18), AddressRange(0x40, 0x44))
    assert places.function("g") == (AddressRange(0x60, 0x64),)
    assert places.function("0x72") == (AddressRange(0x70, 0x74),)


def test_what_means_several_things_is_refused_with_a_list() -> None:
    symbols = Symbols([Symbol(0x10, 8, "state"), Symbol(0x40, 4, "state"), Symbol(0x60, 4, "a.so!other")])
    places = AskedPlaces(GuestProgram(None, symbols))
    with pytest.raises(
        UsageError, match=r"one of state \(0x10\), state \(0x40\), found state; give the address"
    ):
        places.addresses("state+2")
    assert places.addresses("other:0x63") == AddressRange(0x60, 0x63)
    assert places.bytes_of("a.so!other+1:2", 8) == AddressRange(0x61, 0x63)
    for text in ("nothing", "other+", "+3", "other+x", "0xzz", "1_000", "", "state[0]", "0x10:0"):
        with pytest.raises(UsageError):
            places.bytes_of(text, 8)
