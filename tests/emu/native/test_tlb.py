"""The emulator's TLB has room for what a core uses between two flushes, whatever the addresses are."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from guest import DATA, READ, WRITE, Code, elf, run_guest

from emu.bus.names import PAGE
from emu.core.core import Core
from emu.hooks.registry import native_isa
from emu.native.state import CORE, address_of
from emu.native.tlb import descriptions, fit_tlb
from isa.x86_64.registers import X86_64
from recorder.files.reader import Recording
from recorder.replay.core import replay_core

#: Pages that are written by turns, bytes from one to the next, and how often.
PAGES, STRIDE, ROUNDS = 40, 64 << 12, 400
FIRST = DATA + 0x10000
MEMORY = FIRST + PAGES * STRIDE
DESCRIPTION, TO_USED = 696, 8


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of whose pages have one place in a TLB of 64 entries."""
    code = Code()
    code.mov("rcx", ROUNDS).label("round").mov("rbx", FIRST).mov("rdx", PAGES)
    code.label("page").store(("rbx", 0), "rcx").add("rbx", STRIDE).loop("rdx", "page")
    code.loop("rcx", "round").power_off(0)
    pages = (FIRST, b"", PAGES * STRIDE, READ | WRITE)
    return elf(tmp_path_factory.mktemp("guest") / "stride.elf", code, [pages])


def _fills(program: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the TLB was filled before each flush."""
    found: list[int] = []
    protect = Core.protect_again

    def noting(self: Core) -> None:
        found.append(int(self.row["fills"]))
        protect(self)

    with monkeypatch.context() as patch:
        patch.setattr(Core, "protect_again", noting)
        run = run_guest(
            program, path, seed=1, strata="cycles:4000", memory=MEMORY, bus=PAGE, evidence=("losses",)
        )
        assert run.outcome.end.exit_code == 0
    return found


def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator is told nothing."""
    native = replace(native_isa(X86_64), tlb=lambda _: 0)
    monkeypatch.setattr("emu.core.core.native_isa", lambda _: native)


def test_pages_that_share_a_place_are_filled_once(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and writing, for each flush. The first TLBs are still small."""
    fills = _fills(program, tmp_path / "rec", monkeypatch)
    assert len(fills) > 12
    assert max(fills[8:-1]) <= 2 * PAGES + 20, fills
    assert max(fills[:3]) > 4 * PAGES, fills


def test_without_it_they_drive_each_other_out(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see."""
    _without(monkeypatch)
    fills = _fills(program, tmp_path / "rec", monkeypatch)
    assert min(fills[8:-1]) > 4 * PAGES, fills


def test_its_size_leaves_no_trace(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fills(program, tmp_path / "one", monkeypatch)
    _without(monkeypatch)
    _fills(program, tmp_path / "two", monkeypatch)
    logs = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert logs[0] == logs[1]
    assert replay_core(Recording.open(tmp_path / "one"), 0).digests > 12


# -- what the emulator is told ---------------------------------------------------------------------------


def test_an_emulator_that_is_not_known_is_told_nothing() -> None:
    memory = ctypes.create_string_buffer(4 * DESCRIPTION)
    fast = ctypes.addressof(memory) + 3 * DESCRIPTION + 8
    assert descriptions(fast, 3) == 0
    for mode in range(3):
        struct.pack_into("<Q", memory, 3 * DESCRIPTION + 8 + 16 * mode, 255 << 6)
    # No window has begun.
    assert descriptions(fast, 3) == 0
    for mode in range(3):
        struct.pack_into("<Q", memory, DESCRIPTION * mode + 16, 77)
    assert descriptions(fast, 3) == ctypes.addressof(memory) + 16
    struct.pack_into("<Q", memory, 3 * DESCRIPTION + 8 + 32, 511 << 6)
    assert descriptions(fast, 3) == 0


@pytest.mark.parametrize(
    ("fills", "wanted"),
    [
        ([0, 0], [0, 0]),
        ([100, 0, 0], [100, 99, 98]),
        ([100, 200, 50], [100, 200, 197]),
        ([1 << 20, 5, 3000], [2048, 2016, 2048]),
    ],
)
def test_room_is_asked_for_what_was_filled(fills: list[int], wanted: list[int]) -> None:
    """Of every mode, and the window is over."""
    rows, told = np.zeros(1, CORE), np.full((3, DESCRIPTION // 8), 9, np.uint64)
    rows[0]["tlb"], rows[0]["tlb_modes"] = address_of(told), 3
    for number, expected in zip(fills, wanted, strict=True):
        rows[0]["fills"] = number
        fit_tlb(rows[0])
        assert rows[0]["fills"] == 0
        assert told[:, 0].tolist() == [0] * 3
        assert told[:, TO_USED // 8].tolist() == [expected] * 3
    assert (told[:, 2:] == 9).all()
