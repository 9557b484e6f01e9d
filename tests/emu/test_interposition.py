"""Where functions of libunicorn are called from, read from its file."""

from __future__ import annotations

import ctypes
import random

import pytest
from elftools.elf.elffile import ELFFile

from corebraid.base.errors import CorebraidError
from emu.native.interposition import EVERYWHERE, FOR_CALLS, SharedObject
from emu.native.unicorn import library


def address_of(name: str) -> int:
    """Of a function of the emulator's."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


@pytest.fixture(scope="module")
def loaded() -> SharedObject:
    return SharedObject(library._name, "uc_open", address_of("uc_open"))


def test_functions_and_their_slots_are_those_that_others_find(loaded: SharedObject) -> None:
    """The dynamic linker tells where functions are, pyelftools which calls go through which words."""
    with open(library._name, "rb") as file:
        elf = ELFFile(file)
        table, calls = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".rela.plt")
        rows = random.Random(7).sample([*calls.iter_relocations()], 300)
        found = [(table.get_symbol(row["r_info_sym"]), row["r_offset"]) for row in rows]
    # It calls functions of others too.
    found = [(symbol, place) for symbol, place in found if symbol["st_shndx"] != "SHN_UNDEF"]
    called = {symbol.name: place for symbol, place in found}
    assert len(called) > 100
    first = found[0][0]
    base = address_of(first.name) - first["st_value"]
    for name, (function, places) in zip(called, loaded.slots(called, (FOR_CALLS,)), strict=True):
        assert function == address_of(name)
        assert places == [base + called[name]]


def test_words_of_other_uses_are_left_alone(loaded: SharedObject) -> None:
    name = "helper_fxsave_x86_64"
    (_, everywhere), (_, again) = loaded.slots([name, name], EVERYWHERE)
    apart = [place for use in EVERYWHERE for place in loaded.slots([name], (use,))[0][1]]
    assert everywhere == again
    assert sorted(apart) == sorted(everywhere)
    assert everywhere


@pytest.mark.parametrize("name", ["", "helper_fxsave_x86_6", "helper_fxsave_x86_644", "nobody_has_this"])
def test_a_function_that_is_not_there(loaded: SharedObject, name: str) -> None:
    with pytest.raises(CorebraidError, match="it has no function"):
        loaded.slots([name])
