"""Slices are replayed by executing their instructions in the order found; in a wrong order they are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import record, run
from linux_guest_factory import PROGRAMS as LINUX

from corebraid.base.errors import Divergence
from corebraid.base.rows.event import EVENT, READ, WRITE
from corebraid.base.rows.record import MISS, RECORD
from recorder.files.reader import Recording
from recorder.replay.driver import STOP
from solver.evidence.lightplay.decide import FOUND, Decided, Settings
from solver.evidence.lightplay.execute import Executed, Plan, execute, plan_of
from solver.evidence.lightplay.report import survey
from solver.evidence.lightplay.slice_problem import make_problem
from solver.evidence.lightplay.stepping import SteppedCore, with_stops_behind

EMPTY = np.zeros(0, EVENT)
Kept = list[tuple[Decided, Any]]


def kept_of(recording: Recording) -> Kept:
    """The slices that have something to order, as they were decided."""
    found: Kept = []
    survey(recording, Settings(), constraints=False, also=lambda one, events: found.append((one, events)))
    return [(one, events) for one, events in found if one.order.size]


def replayed(recording: Recording, kept: Kept) -> Executed:
    n_cores = recording.manifest.n_cores
    return execute(recording, [plan_of(one, events, n_cores) for one, events in kept])


@pytest.fixture(scope="module")
def uts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Kept]:
    path = tmp_path_factory.mktemp("execute") / "uts"
    options = ("--cores", 3, "--slice", 60, "--strata", "cycles:3000", "--evidence", "slices")
    assert record(path, "uts", *options).code == 0
    recording = Recording.open(path)
    return recording, kept_of(recording)


@pytest.mark.parametrize(
    ("program", "fetches"),
    [("primitives", False), ("smc", True), pytest.param("litmus", False, marks=pytest.mark.soak)],
)
def test_firmware(program: str, fetches: bool, tmp_path: Path) -> None:
    """Also with accesses of 16 bytes at once, and with code that is written while it runs."""
    options = ("--cores", 4, "--slice", 40, "--seed", 5, "--slice-accesses", 12, "--limit", 300_000)
    record(tmp_path / "rec", program, *options, "--evidence", "slices")
    recording = Recording.open(tmp_path / "rec")
    kept = kept_of(recording)
    done = replayed(recording, kept)
    assert (done.slices, done.parted) == (len(kept), 0)
    assert done.instructions > 20
    assert done.given >= 8 * done.instructions / 2
    assert bool(done.fetches) == fetches


def test_a_program_with_threads(tmp_path: Path) -> None:
    """Its instructions read and write one after the other, and slices end in between."""
    options = ("--cores", 3, "--slice", 60, "--strata", "cycles:20000", "--evidence", "slices")
    assert run("record", "-o", tmp_path / "rec", *options, "--", LINUX / "mutexes").code == 0
    recording = Recording.open(tmp_path / "rec")
    kept = kept_of(recording)
    assert any(len(one.problem.begun) for one, _ in kept)
    done = replayed(recording, kept)
    assert done.slices + done.parted == len(kept)
    assert done.parted < len(kept) / 20
    assert done.instructions > 500
    assert done.agents > 50


def test_every_slice_replays_alone(uts: tuple[Recording, Kept]) -> None:
    """From the beginning, as there are no checkpoints; with one, from there: fewer instructions."""
    recording, kept = uts
    whole = replayed(recording, kept)
    alone = [replayed(recording, [one]) for one in kept[::5]]
    assert all((one.slices, one.parted) == (1, 0) for one in alone)
    assert whole.slices == len(kept)
    assert whole.accesses == sum(len(one.order) for one, _ in kept)


def swapped(one: Decided) -> list[Decided]:
    """The same with two neighbours of different streams the other way round that touch one place, of which
    one writes there what was not there."""
    problem, found = one.problem, []
    for k in range(problem.n - 1):
        first, second = one.order[k : k + 2].tolist()
        mine, theirs = (range(problem.part_ptr[op], problem.part_ptr[op + 1]) for op in (first, second))
        changes = any(
            problem.place[p] == problem.place[q]
            and (problem.old[p] != problem.new[p] or problem.old[q] != problem.new[q])
            for p in mine
            for q in theirs
        )
        if problem.stream[first] != problem.stream[second] and changes:
            order = one.order.copy()
            order[[k, k + 1]] = second, first
            found.append(replace(one, order=order))
    return found


def test_no_wrong_order_replays(uts: tuple[Recording, Kept]) -> None:
    recording, kept = uts
    wrong = [(other, events) for one, events in kept for other in swapped(one)]
    assert len(wrong) > 10
    for one, events in wrong[:: len(wrong) // 10]:
        with pytest.raises(Divergence, match=f"slice {one.problem.number}.*does not replay") as caught:
            replayed(recording, [(one, events)])
        # Nothing that the command line does not take.
        assert f"corebraid.slices('{recording.path}')" in str(caught.value)


def test_what_instructions_find_is_the_slices_memory(
    uts: tuple[Recording, Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what the core's own log says: that is spoilt here where accesses race, and nothing changes."""
    recording, kept = uts
    put = SteppedCore.put

    def spoilt(self: SteppedCore, address: int, value: bytes) -> None:
        self._core.core.memory[address : address + len(value)] = 0xA5
        put(self, address, value)

    with monkeypatch.context() as patched:
        patched.setattr(SteppedCore, "put", spoilt)
        assert replayed(recording, kept).slices == len(kept)
    # Where the slice's memory is another one, they find that.
    one, events = next((one, events) for one, events in kept if one.how == FOUND)
    other = replace(one, problem=replace(one.problem, initial=one.problem.initial ^ np.uint64(1)))
    with pytest.raises(Divergence, match="does not replay"):
        replayed(recording, [(other, events)])
    last = replace(one, problem=replace(one.problem, final=one.problem.final ^ np.uint64(1)))
    with pytest.raises(Divergence, match="memory at its end"):
        replayed(recording, [(last, events)])


def rows(*made: tuple[int, int, int, int, int]) -> Any:
    """EVENT[n] of (core, instruction, kind, old, new), of one word."""
    found = np.zeros(len(made), EVENT)
    for k, (core, count, kind, old, new) in enumerate(made):
        found[k] = (k, count, 0x40, 0x1000, old, new, 0, core, 8, kind, 0)
    return found


def plan(order: list[int], *made: tuple[int, int, int, int, int], begun: Any = EMPTY) -> Plan | None:
    events = rows(*made)
    checkpoints = np.zeros(
        len(made), [("stream", "u1"), ("glued", "u1"), ("before", "<u8"), ("after", "<u8")]
    )
    checkpoints["stream"] = events["core"]
    checkpoints["before"], checkpoints["after"] = events["old"], events["new"]
    writes = events[events["kind"] != READ]
    problem = make_problem(0, events, checkpoints, writes["new"][-1:])
    problem = replace(problem, begun=begun)
    return plan_of(Decided(problem, FOUND, np.array(order)), events, 2)


def test_an_instruction_with_several_accesses() -> None:
    """It reads, and then writes; the other core's store comes between, or not."""
    adds, stores = ((0, 7, READ, 0, 0), (0, 7, WRITE, 9, 1)), (1, 3, WRITE, 0, 9)
    between = plan([0, 2, 1], *adds, stores)
    assert between is not None
    assert [(turn.core, turn.count, len(turn.events)) for turn in between.turns] == [
        (0, 7, 1),
        (1, 3, 1),
        (0, 7, 1),
    ]
    # What is read by the second access has changed since the first one: that takes half an instruction.
    reads = ((0, 7, READ, 0, 0), (0, 7, READ, 9, 9))
    assert plan([0, 2, 1], *reads, stores) is None
    assert plan([2, 0, 1], *reads, stores) is not None


def test_an_instruction_that_began_before_the_slice_has_read_what_it_needs() -> None:
    begun = rows((0, 7, READ, 5, 5))
    made = ((0, 7, WRITE, 0, 6), (1, 3, WRITE, 5, 0))
    for before, given in ((begun, ()), (EMPTY, (0,))):
        found = plan([1, 0], *made, begun=before)
        assert found is not None
        assert found.turns[1].given == given


def frames(cut: Callable[[int], bool], counts: list[int]) -> list[Any]:
    log = np.zeros(len(counts), RECORD)
    log["count"], log["kind"] = counts, MISS
    cuts = [k for k in range(1, len(counts)) if cut(k)]
    return [(piece, np.zeros(1, np.uint8)) for piece in np.split(log, cuts)]


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_stops_are_behind_all_that_a_core_receives_for_an_instruction(every: int) -> None:
    counts, stops = [0, 2, 2, 5, 5, 5, 9], [2, 3, 5, 8, 9, 12]
    found = np.concatenate(
        [one for one, _ in with_stops_behind(frames(lambda k: k % every == 0, counts), stops)]
    )
    told = [(int(row["count"]), row["kind"] == STOP) for row in found]
    # What lies past the last row is left out.
    assert told == sorted([(count, False) for count in counts] + [(count, True) for count in stops[:-1]])
