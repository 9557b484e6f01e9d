"""Chains, in which each thing that is learned is what the next one follows from: what is found along them is
what sweeps find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from engine_suite import SOAK
from guest import DATA, Code, run_guest
from guest_bodies import build
from numpy.typing import NDArray
from tenure_factory import Run
from test_tenures_rules import deduced, false_edges

import corebraid
from emu.bus.names import MESI, PAGE
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.sifting.strata import iter_regions
from solver.tenures import deduce
from solver.tenures.clocks import Places
from solver.tenures.deduce import Deduced
from solver.tenures.onward import Rules, make_stations
from solver.tenures.spans import no_spans


class NoTenures(NamedTuple):
    """What `make_stations` asks of tenures."""

    stream: NDArray[np.int64]


ALWAYS, NEVER = 0, 1 << 30


@contextmanager
def chains(after: int) -> Iterator[None]:
    """Followed after so many sweeps."""
    with mock.patch.object(deduce, "_SWEEPS", after):
        yield


def lock_that_others_look_at(code: Code) -> None:
    """Core 0 takes and gives back a lock; the others look at it, and store what is there beside it. What
    stands there before the first time and after the last never does in between."""
    code.compare("rbx", 0).jump_if("nz", "look").mov("rax", 7).store(DATA + 16, "rax").mov("rcx", 300).label(
        "again"
    )
    code.mov("rax", 1).store(DATA, "rax").mov("rax", 0).store(DATA, "rax").loop("rcx", "again")
    code.mov("rax", 9).store(DATA + 24, "rax").compare("rbx", 0).jump_if("z", "over")
    code.label("look").mov("rcx", 400).label("more").load("rax", DATA).load("rdx", DATA + 8)
    code.store(DATA + 8, "rdx").loop("rcx", "more").label("over")


def deduced_of(recording: Recording) -> list[Deduced]:
    """Of every region, from losses too."""
    found = []
    for region in iter_regions(RecordingTraces(recording, constraints=LOSSES)):
        assert region.tenures is not None
        found.append(region.tenures.deduced(region))
    return found


def assert_same(some: list[Deduced], others: list[Deduced]) -> None:
    for one, other in zip(some, others, strict=True):
        assert one.dropped == other.dropped
        np.testing.assert_array_equal(one.clocks.clock, other.clocks.clock)


@pytest.mark.parametrize("bus", [PAGE, MESI])
def test_a_lock_that_others_look_at(bus: str, tmp_path: Path) -> None:
    program = build(tmp_path, lock_that_others_look_at)
    options: dict[str, Any] = {"longest_slice": 20, "bus": bus, "evidence": ("losses",)}
    recording = run_guest(program, tmp_path / "rec", 3, **options).recording
    with chains(NEVER):
        swept = deduced_of(recording)
    followed = deduced_of(recording)
    assert_same(swept, followed)
    assert sum(found.rounds for found in swept) > 150
    if bus == PAGE:
        assert sum(found.rounds for found in followed) < sum(found.rounds for found in swept) * 2 / 3


@pytest.mark.parametrize(("model", "often"), [("sc", 2), ("tso", 0)])
def test_what_takes_too_long_is_left_out(
    model: str, often: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less is found, all of it true, and an order all the same."""
    program = build(tmp_path, lock_that_others_look_at)
    options: dict[str, Any] = {"longest_slice": 20, "evidence": ("losses",), "model": model}
    recording = run_guest(program, tmp_path / "rec", 3, **options).recording
    whole = deduced_of(recording)
    monkeypatch.setattr(deduce, "_OFTEN", often)
    monkeypatch.setattr(deduce, "_MOST", 0)
    some, less = deduced_of(recording), 0
    assert sum(found.rounds for found in some) < sum(found.rounds for found in whole)
    for part, every in zip(some, whole, strict=True):
        assert not part.dropped
        assert (part.clocks.clock <= every.clocks.clock).all()
        less += int((part.clocks.clock < every.clocks.clock).sum())
    assert less
    assert not corebraid.order(recording).with_verdict("undecided")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("losses", [False, True], ids=["tenures", "losses"])
def test_along_chains_of_random_runs_the_same_is_found(losses: bool) -> None:
    known = 0
    for seed in range(200 * SOAK):
        print(f"Run({seed})")
        with chains(ALWAYS):
            followed = [found for _, found in deduced(Run(seed), losses=losses)]
        with chains(NEVER):
            swept = [found for _, found in deduced(Run(seed), losses=losses)]
        assert_same(followed, swept)
        known += sum(int((found.clocks.clock > 0).sum()) for found in followed)
    assert known > 5000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("losses", [False, True], ids=["tenures", "losses"])
def test_what_is_found_along_chains_is_true_of_random_runs(losses: bool) -> None:
    edges = 0
    with chains(ALWAYS):
        for seed in range(200 * SOAK):
            n, false, _ = false_edges(Run(seed), losses=losses)
            assert not false, f"Run({seed})"
            edges += n
    assert edges > 1500


def test_a_span_that_ends_before_a_stream_that_has_no_node() -> None:
    """The last streams of a region in which they do nothing but lose what they had."""
    run = Run(1)
    with chains(ALWAYS):
        (_, found), *_ = deduced(run, losses=True)
    n = len(found.clocks.ptr) - 1
    one, kind = np.zeros(1, np.int64), np.zeros(1, np.uint8)
    idle = no_spans()._replace(
        line=one, stream=one + n, first=one - 1, before=one - 1, after=one, start=kind, end=kind
    )
    clocks = found.clocks._replace(ptr=np.append(found.clocks.ptr, found.clocks.ptr[-1]))
    places = Places(one, one, one, one == 0, one, one, one, one, one.astype(np.uint64), one == 0)
    rules = Rules(NoTenures(one), places, clocks, None, idle, no_spans())  # type: ignore[arg-type]
    stations = make_stations(rules)
    assert stations.spans.ptr.max() == 0
    assert stations.firsts.which.tolist() == [0]


def test_a_span_alone_that_ends_later_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: whoever has a line alone is said to have had it from the begin of the region on."""
    plain = deduce.make_losses

    def early(*asked: Any) -> Any:
        losses = plain(*asked)
        return losses._replace(alone=losses.alone._replace(first=np.zeros_like(losses.alone.first)))

    monkeypatch.setattr(deduce, "make_losses", early)
    noticed = 0
    with chains(ALWAYS):
        for seed in range(60):
            _, false, _ = false_edges(Run(seed), losses=True)
            noticed += bool(false)
    assert noticed
