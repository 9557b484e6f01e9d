"""Names of C++ and Rust: as they stand in the source where they can be read, as they are where not."""

from __future__ import annotations

import random
import time

import pytest

from corebraid.base.errors import UsageError
from corebraid.names.asked_places import AskedPlaces
from corebraid.names.demangling import demangled
from corebraid.names.program import GuestProgram
from corebraid.names.selection import AddressRange
from corebraid.names.symbols import Symbol, Symbols


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_ZN4bank6ledgerI3fooE3sumEv", "bank::ledger<foo>::sum()"),
        ("_ZSt9terminatev", "std::terminate()"),
        ("libstdc++.so.6!_ZSt9terminatev", "libstdc++.so.6!std::terminate()"),
        ("_ZdlPv@plt", "operator delete(void*)@plt"),
        ("_ZN3fooaSERKS_", "foo::operator=(foo const&)"),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"),
        ("main", "main"), ("libc.so.6!raise", "libc.so.6!raise"), ("", ""), ("_Z", "_Z"), ("_R", "_R"),
        ("_Zfoo", "_Zfoo"), ("_ZN3foo", "_ZN3foo"), ("_RNvMs_NtCs_3foo", "_RNvMs_NtCs_3foo"),
        ("?x@@YAHXZ", "?x@@YAHXZ"),
        ("a!b!c", "a!b!c"),
    ],
)  # fmt: skip
def test_names(name: str, shown: str) -> None:
    assert demangled(name) == shown


def test_what_a_compiler_has_made_a_copy_of_keeps_that() -> None:
    assert demangled("_ZL7throweri.cold").startswith("thrower(int)")
    assert "cold" in demangled("_ZL7throweri.cold")


def test_long_names_with_parts_named_again() -> None:
    """As programs with a std::map have them: what is named again is no longer for being named again."""
    part = "St23_Rb_tree_const_iteratorIS5_E"
    name = (
        "_ZNSt8_Rb_treeIiSt4pairIKiPN12_GLOBAL__N_18ListenerEESt10_Select1stIS5_ESt4lessIiESaIS5_EE"
        f"22_M_emplace_hint_uniqueIJRiRS4_EEESt17_Rb_tree_iteratorIS5_E{part}DpOT_"
    )
    assert demangled(name).startswith("std::_Rb_tree_iterator<std::pair<int const, ")
    invoke = "_ZSt8__invokeIPFviEJiEENSt15__invoke_resultIT_JDpT0_EE4typeEOS3_DpOS4_"
    assert demangled(invoke).startswith("std::__invoke_result<void (*)(int), int>::type std::__invoke<")
    assert demangled(f"_Z1fPiPS_{'S0_' * 500}").count("int**") == 501


def doubled(levels: int) -> str:
    """A name of which each part has the one before it twice."""
    digits, name = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "_Z1fPi"
    for level in range(levels):
        before = "S_" if not level else f"S{digits[2 * level - 1]}_"
        name += f"PFv{before}{before}E"
    return name


def test_names_that_would_take_all_memory_stay() -> None:
    assert demangled(doubled(2)) != doubled(2)
    began = time.monotonic()
    for name in (doubled(17), "_Z1fI" + "T_" * 2000 + "E", "_Z1f" + "Dp" * 400 + "i", "_R" + "B1_" * 1000):
        assert demangled(name) == name
    assert time.monotonic() - began < 5
    assert len(demangled("_Z1f" + "P" * 3000 + "i")) < 5000


def test_any_bytes_are_a_name() -> None:
    draw = random.Random(3)
    text = "_Z N St6vector I E P K S_ S0_ T_ L _ 3foo i v C1 D0 cv X sr J F U Dp dl R O Ul _R Nv C M Y B1_"
    pieces = text.split()
    for _ in range(20_000):
        name = draw.choice(("_Z", "_R")) + "".join(draw.choices(pieces, k=draw.randrange(1, 60)))
        assert demangled(name)


def test_symbols_are_shown_so_and_found_by_either_name() -> None:
    symbols = Symbols([
        Symbol(0x10, 8, "_ZN4bank5totalE"), Symbol(0x20, 8, "plain"), Symbol(0x30, 8, "libx.so!_ZN1x1yE"),
        Symbol(0x40, 8, "liby.so!_ZN1z1yE"), Symbol(0x50, 8, "libz.so!_ZN1z1yE"),
    ])  # fmt: skip
    assert symbols.name(0x14) == "bank::total+0x4"
    assert list(symbols.names)[:2] == ["bank::total", "plain"]
    assert len(symbols.names) == 5
    assert list(symbols.names[1:3]) == ["plain", "libx.so!x::y"]
    for name, address in (
        ("bank::total", 0x10),
        ("_ZN4bank5totalE", 0x10),
        ("x::y", 0x30),
        ("libx.so!x::y", 0x30),
    ):
        found = symbols.named(name)
        assert found is not None
        assert found.address == address
    spans = {"bank::total": (0x10, 0x18), "bank::total:plain": (0x10, 0x20), "x::y:0x38": (0x30, 0x38)}
    for text, (low, high) in spans.items():
        assert AskedPlaces(GuestProgram(None, symbols)).addresses(text) == AddressRange(low, high)
    assert symbols.named("bank::other") is symbols.named("0x10") is None
    with pytest.raises(UsageError, match="several symbols"):
        symbols.named("z::y")
