"""The table of all systems: what its recorders are handed, what it says of engines that do nothing or answer
wrongly, and its arithmetic on cases done by hand."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from evidence_factory import Spy

from bench.linux_means import spec_of
from bench.systems.logs import (
    LIGHTPLAY,
    MICRO,
    OPR_ALL,
    RERUN,
    STRIDE,
    SYSTEMS,
    Logs,
    SparseLeap,
    guest_of,
    turns,
)
from bench.systems.measure import Measured, measure
from bench.systems.orders import Ordered, order_by
from bench.systems.runs import EVIDENCE, Subject, compressors, kernel, record, subjects
from bench.systems.tables import all_tables, order_cells
from bench.true_order import held_traces
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.study.evidence.truth import TruthScores
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.linux import LinuxCapture
from recorder.capture.options import RecordOptions
from recorder.files.constraints import VALUES
from recorder.files.evidence_names import LINKAGE
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.engines.decide import solve_auto
from solver.evidence.linkage.engine import LinkageEngine
from solver.passes.answers import EvidenceEngine, Options
from solver.regions.links import with_links
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region
from solver.score import Score

SMALL = kernel("ocean", 2, 16)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A kernel of two threads with all evidence."""
    made = record(SMALL, tmp_path_factory.mktemp("systems") / "rec", EVIDENCE)
    assert made.exit_code == 0
    return made.recording


def by(recording: Recording, engine: EvidenceEngine) -> Ordered:
    """What the table says of an engine that stands in for Stride's."""
    scores = TruthScores(recording, RecordingTraces(recording))
    options = Options("linkage", 5.0, evidence=engine)
    return order_by(recording, {STRIDE: options}, VALUES, scores)[STRIDE]


class Idle:
    """An engine that answers nothing."""

    name = "linkage"

    def solve(self, region: Region, problem: Problem) -> Solution:
        if not problem.n_ops:
            return Solution(Verdict.LEGAL, "idle", 0.0, no_order())
        return Solution(Verdict.UNDECIDED, "idle", 0.0, no_order(), "gave up")


class Backwards:
    """An engine that answers wrongly: program order alone, the last core first."""

    name = "linkage"

    def solve(self, region: Region, problem: Problem) -> Solution:
        order = np.argsort(-problem.op_stream, kind="stable").astype(np.int64)
        return Solution(Verdict.LEGAL, "backwards", 0.0, order)


class Blind:
    """An engine that does not look at its evidence: legal orders, of which some are not what ran."""

    name = "linkage"

    def solve(self, region: Region, problem: Problem) -> Solution:
        if not problem.n_ops:
            return Solution(Verdict.LEGAL, "blind", 0.0, no_order())
        return solve_auto(with_links(problem), timeout_s=20.0, nodes=1_000_000)


def test_watchers_are_handed_what_they_would_have_been_as_it_ran(tmp_path: Path) -> None:
    spy = Spy()
    options = RecordOptions(cores=2, seed=1, memory_bytes=ADDRESS_SPACE)
    spec = spec_of(list(kernel("radix_sort", 2, 16).command))
    place = tmp_path / "rec"
    ignore = lambda _: None  # noqa: E731
    capture = LinuxCapture(spec, place, X86_64, LINUX_X86_64, options, ignore, ignore, watchers=(spy,))
    with closing(capture), capture.writer:
        capture.run()
    recorded = Recording.open(place)
    again = list(turns(held_traces(recorded), recorded))
    assert len(again) > 10
    live = [(stream, rows) for stream, rows in spy.turns if len(rows)]
    columns = ["core", "seq", "addr", "size", "kind", "old", "new"]
    assert (
        np.concatenate([r for _, r in again])[columns] == np.concatenate([r for _, r in live])[columns]
    ).all()
    # A turn that ends where the next one of the same stream begins may be one turn.
    merged = [s for k, (s, _) in enumerate(live) if not k or live[k - 1][0] != s]
    assert [s for k, (s, _) in enumerate(again) if not k or again[k - 1][0] != s] == merged


@pytest.mark.soak
def test_leap_of_pages_is_leap(recording: Recording) -> None:
    """Runs that are open at the end are those of all variables."""
    leap = SparseLeap(guest_of(recording.manifest))
    for stream, rows in turns(held_traces(recording), recording):
        leap.take(stream, rows)
    found = leap.open_variables()
    low = int(found[0])
    assert (np.flatnonzero(leap._n[low : low + (1 << 20)]) + low).tolist() == [
        x for x in found.tolist() if x < low + (1 << 20)
    ]
    assert len(found) > 50


@pytest.mark.soak
def test_an_engine_of_evidence_shows_as_right(recording: Recording) -> None:
    told = by(recording, LinkageEngine.of(recording))
    cell, right, wrong, undetermined = order_cells(STRIDE, [told])
    assert cell == f"{told.to_order} of {told.to_order}"
    assert told.to_order > 0
    assert isinstance(right, int)
    assert right > 1000
    assert (wrong, undetermined) == (0, 0)


def test_an_engine_that_answers_nothing_shows_as_such(recording: Recording) -> None:
    told = by(recording, Idle())
    cell, _, wrong, undetermined = order_cells(STRIDE, [told])
    assert cell == f"0 of {told.to_order} (gave up)"
    assert told.decided == 0
    assert wrong == 0
    assert isinstance(undetermined, int)
    assert undetermined > 100


def test_an_engine_that_answers_wrongly_shows_as_such(recording: Recording) -> None:
    cells = order_cells(STRIDE, [by(recording, Backwards())])
    assert str(cells[0]).startswith("REFUSED: region ")
    assert cells[1:] == ["refused", "-", "-"]
    # Also where others were right.
    together = order_cells(STRIDE, [by(recording, LinkageEngine.of(recording)), by(recording, Backwards())])
    assert str(together[0]).startswith("REFUSED: region ")


def test_an_engine_that_ignores_its_evidence_shows_as_wrong(tmp_path: Path) -> None:
    contested = record(kernel("ocean", 4, 24), tmp_path / "rec", (LINKAGE,)).recording
    told = by(contested, Blind())
    cell, _, wrong, undetermined = order_cells(STRIDE, [told])
    assert cell == f"{told.to_order} of {told.to_order}"
    assert isinstance(wrong, int)
    assert wrong > 0
    assert undetermined == 0


@pytest.mark.soak
def test_the_whole_of_one_program(tmp_path: Path) -> None:
    one = measure(SMALL, tmp_path, rounds=1)
    assert not one.failed
    assert one.logs is not None
    assert set(one.logs.bytes) == set(SYSTEMS)
    assert all(size > 0 for size in one.logs.bytes.values())
    # Inputs are in the cores' logs, which MICRO's has whole.
    assert 0 < one.logs.inputs < one.logs.cores < one.logs.bytes[MICRO]
    assert one.logs.kernel > 0
    assert one.replays == {MICRO: "bit-exact", STRIDE: "bit-exact", OPR_ALL: "bit-exact"}
    assert one.orders is not None
    assert one.orders[LIGHTPLAY].cell == one.orders[STRIDE].cell
    assert one.ratios is not None
    assert all(ratio > 0 for ratio in one.ratios.values())
    systems, bytes_, cost, orders = all_tables([one])
    assert [row[0] for row in systems.rows] == list(SYSTEMS)
    assert len(bytes_.rows) == len(cost.rows) == 1
    assert len(orders.rows) == 5
    assert "" not in [
        text for table in (systems, bytes_, cost, orders) for row in table.texts() for text in row
    ]


def ordered(to_order: int, checked: int, score: Score | None) -> Ordered:
    """Without anything refused."""
    told = Ordered(to_order, checked, checked, score=score)
    told.reasons["timeout"] += to_order - checked
    return told


def test_tables_of_a_case_done_by_hand() -> None:
    first = Measured(
        Subject("a", ("/a",), 4),
        Logs(2000, dict.fromkeys(SYSTEMS, 100) | {STRIDE: 10}, inputs=30, kernel=10, cores=90),
        {STRIDE: ordered(4, 3, Score(9, 6, 1, 2, 0, 0, 0, 0, 0)), OPR_ALL: ordered(0, 0, None)},
        {STRIDE: "bit-exact", OPR_ALL: "core 1 went elsewhere"},
        {"linkage": 1.5},
    )
    second = Measured(
        Subject("b", ("/b",), 2),
        Logs(0, dict.fromkeys(SYSTEMS, 0)),
        {STRIDE: ordered(1, 1, Score(1, 1, 0, 0, 0, 0, 0, 0, 0))},
        {STRIDE: "bit-exact"},
    )
    missing = Measured(Subject("c", ("c",), 4), failed="skipped: c is not installed (apt-get install c)")
    systems, bytes_, cost, orders = (table.rows for table in all_tables([first, second, missing]))
    rows = {str(row[0]): row[1:] for row in systems}
    assert rows[STRIDE] == [5.0, 25.0, 25.0, 25.0, 1.5, "2 of 2 bit-exact", "4 of 5 (timeout)", 7, 1, 2]
    assert rows[MICRO][:4] == [50.0, 50.0, 50.0, 50.0]
    assert rows[LIGHTPLAY][:4] == [50.0, 100.0, 100.0, 100.0]
    assert rows[OPR_ALL][5:] == ["core 1 went elsewhere", "-", "-", "-", "-"]
    assert rows[RERUN][4:] == [
        "not charged",
        "log only: no replayer here",
        "log only: no engine here",
        *"---",
    ]
    assert [row[2] for row in bytes_] == [2000, 0, missing.failed]
    assert set(bytes_[1][3:]) == {"-"}
    assert cost[2][2] == missing.failed
    assert orders[0] == ["a", 4, STRIDE, "3 of 4 (timeout)", 6, 1, 2, "bit-exact"]
    assert orders[-1][3] == missing.failed


def test_what_is_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.systems.runs.tool", lambda name: None)
    found = compressors(tmp_path)
    assert [one.why_not for one in found] == [
        f"{name} is not installed (apt-get install {name})"
        for name in ("xz", "pigz", "zstd", "lbzip2", "pbzip2")
    ]
    assert measure(found[0], tmp_path, 0).failed == f"skipped: {found[0].why_not}"
    names = [one.name for one in subjects(tmp_path, ("ocean", "pbzip2"))]
    assert names == ["ocean", "ocean", "ocean", "pbzip2 -p4"]
