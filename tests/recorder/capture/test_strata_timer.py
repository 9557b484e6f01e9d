"""Strata are cut where the scheme says: after the first slice with which a bound is reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest import run_guest

from bench.soak import IMAGES
from emu.board.board import Board
from emu.bus.names import MESI, PAGE
from recorder.capture.base import BaseCapture
from recorder.capture.firmware import Capture
from recorder.capture.strata_policy import StrataPolicy

SCHEMES = ("cycles:900", "events:1", "events:30", "cycles:4000,events:25", "events:40,cycles:1500")


def expected(policy: StrataPolicy, slices: list[tuple[int, int]]) -> list[int]:
    """After which slices. slices: what the fastest clock shows, rights given so far, after each."""
    cuts, before, at_cut = [], 0, 0
    for number, (clock, given) in enumerate(slices):
        passed = policy.cycles and clock // policy.cycles > before // policy.cycles
        if passed or (policy.events and given - at_cut >= policy.events):
            cuts.append(number)
            at_cut = given
        before = clock
    return cuts


@pytest.mark.parametrize("bus", [PAGE, MESI])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_where_they_are_cut(scheme: str, bus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[tuple[int, int]] = []
    cuts: list[int] = []
    between, cut = Capture.between_slices, BaseCapture._stratum

    def looked(self: Capture) -> None:
        rows = self.board.core_rows
        given = int(rows["misses"].sum() + rows["upgrades"].sum())
        slices.append((self.board.clock(), given))
        between(self)

    def noted(self: BaseCapture) -> None:
        cuts.append(len(slices) - 1)
        cut(self)

    monkeypatch.setattr(Capture, "between_slices", looked)
    monkeypatch.setattr(BaseCapture, "_stratum", noted)
    monkeypatch.setattr(Board, "take_stretch", lambda *arguments: None)
    run = run_guest(
        IMAGES / "uts.elf", tmp_path / "rec", 3, strata=scheme, seed=4, longest_slice=300, bus=bus,
        memory=64 << 20,
    )  # fmt: skip
    assert cuts == expected(StrataPolicy.parse(scheme), slices)
    manifest = run.recording.manifest
    assert len(cuts) > 3
    assert manifest.totals["strata"] == len(cuts)
    assert manifest.strata == str(StrataPolicy.parse(scheme))


def test_no_more_than_can_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.capture.base.most_strata", lambda streams: 5)
    for number, scheme in enumerate(("events:5", "downgrades:1", "cycles:200")):
        run = run_guest(IMAGES / "uts.elf", tmp_path / str(number), 3, strata=scheme, memory=64 << 20)
        assert run.outcome.end.reason == "power-off"
        assert run.recording.manifest.totals["strata"] == 5
