"""Which instruction makes an access is looked up when a hook asks, and is remembered until the emulator's
code is thrown away: what is recorded is the same as where it is looked up before each hook."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import DATA, Code, elf, run_guest
from guest_bodies import GUESTS, build
from random_code import random_program

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from emu.board.firmware import Machine
from emu.core.core import Core
from emu.hooks.x86_64 import native
from emu.native.positions import Positions, keep_position, known_position
from emu.native.state import CORE

PLACES = [DATA + 0x40, DATA + 0x48, DATA + 0x7C, DATA + 0x200, DATA + 0xFFC]
MODELS: dict[str, dict[str, Any]] = {
    "sc": {},
    "tso": {"model": "tso"},
    "finite": {"cache": "1k:2:32"},
    "chaos": {"schedule": "chaos"},
}


def recorded(program: Path, path: Path, **options: Any) -> dict[str, bytes]:
    """What cores and agents did, and when."""
    run_guest(program, path, 2, seed=3, **options)
    return {log.name: log.read_bytes() for log in sorted(path.glob("*.log"))}


def each_before_its_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Core, "locate_when_asked", lambda self: None)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(8)
def test_guests_that_are_hard_to_record(
    body: Callable[[Code], None], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path, body)
    found = recorded(program, tmp_path / "asked", **MODELS[model])
    each_before_its_hook(monkeypatch)
    assert recorded(program, tmp_path / "each", **MODELS[model]) == found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(6)
def test_random_guests(seed: int, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(tmp_path / "guest.elf", random.Random(seed), PLACES, 40)
    found = recorded(program, tmp_path / "asked", **MODELS[model])
    each_before_its_hook(monkeypatch)
    assert recorded(program, tmp_path / "each", **MODELS[model]) == found


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """Many blocks whose translations look the same, and of which the first ones are run once."""
    code = Code().mov("rbx", DATA).mov("rcx", 300)
    code.label("again")
    for block in range(12):
        code.store(("rbx", 8 * block), "rcx").store(("rbx", 8 * block + 64), "rcx")
        code.raw("eb 00")  # jmp to the next one
    return elf(tmp_path / "alike.elf", code.loop("rcx", "again").power_off(0), [(DATA, b"", 4096, 6)])


def _thrown_away(monkeypatch: pytest.MonkeyPatch, keeps: bool) -> list[int]:
    """Between slices the emulator forgets all of its code. Returns how many places were known by then. keeps:
    a planted bug, they stay known."""
    known = list[int]()
    between = Machine.between_slices

    def throw_away(self: Machine) -> None:
        for core in self.cores:
            rows = core._positions._rows
            kept = rows.copy()
            core._engine.ctl_flush_tb()
            assert not rows.any()
            known.append(int(np.count_nonzero(kept[:, 0])))
            if keeps:
                rows[:] = kept
        between(self)

    monkeypatch.setattr(Machine, "between_slices", throw_away)
    return known


def test_what_is_known_of_code_that_is_thrown_away_is_forgotten(
    alike: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"model": "tso", "longest_slice": 50}
    right = recorded(alike, tmp_path / "right", **options)
    with monkeypatch.context() as patch:
        known = _thrown_away(patch, keeps=False)
        assert recorded(alike, tmp_path / "thrown", **options) == right
    assert max(known) > 10
    _thrown_away(monkeypatch, keeps=True)
    wrong = dict[str, bytes]()
    # A count that goes back no log can hold.
    with suppress(FormatError):
        wrong = recorded(alike, tmp_path / "kept", **options)
    assert wrong != right


def _known(monkeypatch: pytest.MonkeyPatch, program: Path, path: Path) -> tuple[dict[str, bytes], int]:
    """A recording, and how many places were known in its end."""
    cores, asked = list[Core](), Core.locate_when_asked
    with monkeypatch.context() as patch:
        patch.setattr(Core, "locate_when_asked", lambda self: cores.append(self) or asked(self))
        found = recorded(program, path, model="tso", memory=8 << 20)
    return found, sum(int(np.count_nonzero(core._positions._rows[:, 0])) for core in cores)


def test_code_that_the_emulator_has_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It throws all of it away, again and again."""
    code = Code().mov("rbx", DATA).mov("rcx", 3).label("again")
    for block in range(3000):
        code.store(("rbx", 8 * (block % 64)), "rcx").raw("eb 00")  # jmp to the next one
    code.loop("rcx", "again").power_off(0)
    program = elf(tmp_path / "large.elf", code, [(DATA, b"", 4096, 6)])
    right, all_of_it = _known(monkeypatch, program, tmp_path / "right")
    monkeypatch.setattr(native, "_TRANSLATED_BYTES", 1 << 20)
    found, rest = _known(monkeypatch, program, tmp_path / "small")
    assert found == right
    assert rest < all_of_it // 2


@njit
def _look(rows: Any, place: Any) -> Any:
    """The position that is known of a place, 0 if none is."""
    core = rows[0]
    core.unlocated = place
    row, known = known_position(core)
    return row[1] if known else np.uint64(0)


@njit
def _note(rows: Any, place: Any, position: Any) -> None:
    core = rows[0]
    core.unlocated = place
    keep_position(known_position(core)[0], place, position)


def _slot(place: int) -> int:
    return ((place ^ place >> 12) * 0x9E3779B97F4A7C15 % (1 << 64)) >> 52


def test_places_at_even_distances_have_slots_of_their_own() -> None:
    for distance in (16, 64, 224, 336, 448, 480, 1024):
        places = range(0x7F1234560025, 0x7F1234560025 + 6000 * distance, distance)
        assert len({_slot(place) for place in places}) > 3000, distance


def test_places_are_known_as_their_twin_knows_them() -> None:
    """Of two with one slot the later one."""
    core, draw, twin = np.zeros(1, CORE), random.Random(2), dict[int, tuple[int, int]]()
    kept = Positions(core)
    places = [0x7F0000000000 + draw.randrange(1 << 14) for _ in range(3000)]
    for position, place in enumerate(places, 1):
        held = twin.get(_slot(place), (0, 0))
        assert _look(core, np.uint64(place)) == (held[1] if held[0] == place else 0)
        _note(core, np.uint64(place), np.uint64(position))
        twin[_slot(place)] = place, position
    assert len(twin) < len(set(places))
    kept._rows[:] = 0
    assert not any(_look(core, np.uint64(place)) for place in places)
