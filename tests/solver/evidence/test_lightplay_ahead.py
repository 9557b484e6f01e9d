"""Slices that were searched while they were recorded: the same problems, the same answers, and what is made
of files that say something else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE, ROOT
from slice_factory import Kept, turns
from trace_factory import Shape, make

import corebraid
from corebraid.base.wording import said
from corebraid.study.recorded import Recorded
from recorder.evidence.slices.codec import iter_regions_of
from recorder.evidence.slices.collector import SliceCollector
from recorder.evidence.slices.handover import BATCH, HandedSlice, slices_of
from recorder.files.frame import FileHeader, FrameWriter, iter_frames
from recorder.files.manifest import SLICES_FOUND
from recorder.files.reader import Recording
from recorder.files.sealed_json import canonical
from solver.evidence.lightplay import ahead as ahead_module
from solver.evidence.lightplay.ahead import decide_ahead, load_kernels, problem_of
from solver.evidence.lightplay.decide import CONTRADICTED, FOUND, Decided, Settings, decide
from solver.evidence.lightplay.engine import SlicesEngine
from solver.evidence.lightplay.known import KIND, KnownSlices, _mark, problem_digest
from solver.evidence.lightplay.minimal import minimal_of
from solver.evidence.lightplay.report import Report, survey
from solver.evidence.lightplay.slice_problem import SliceProblem
from solver.passes.unfiltered import iter_problems

SHAPES = [
    Shape(streams=2, steps=60, domain=3),
    Shape(streams=3, steps=120, domain=2, sizes=(8,), aligned=True),
    Shape(streams=4, steps=100, domain=0),
    Shape(streams=3, steps=150, domain=3, hot=64, switch=0.1, strata=0.02, glued=0.2),
]
LINUX = ROOT / "firmware" / "linux" / "x86_64"
IMAGES = ("litmus", "spin_ticket", "peterson", "primitives", "dma_race", "smc", "timer")
PROGRAMS = (
    *(FIRMWARE / f"{name}.elf" for name in IMAGES),
    *(LINUX / name for name in ("mutexes", "condvars", "pipes_poll")),
)


class Taken:
    """A follower that keeps what it is handed."""

    def __init__(self) -> None:
        self.slices: list[HandedSlice] = []

    def begin(self, path: Path, recording: bytes) -> None:
        pass

    def take(self, batch: bytes) -> None:
        self.slices += slices_of(batch[: BATCH.size], batch[BATCH.size :])

    def over(self) -> None:
        pass


def differing(one: SliceProblem, other: SliceProblem) -> list[str]:
    """Names of the fields that make the one another problem than the other, found one by one."""
    names = [field.name for field in fields(SliceProblem) if field.name not in ("number", "begun")]
    return [name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("seed", range(8))
def test_problems_are_those_of_the_engine(number: int, seed: int) -> None:
    """Memory where slices begin too, which the engine knows from all that ran before."""
    shape = SHAPES[number]
    made, taken, kept = make(seed, shape), Taken(), Kept()
    accesses = (4, 8, 16, 40)[seed % 4]
    collector = SliceCollector(shape.streams, made.traces.memory_bytes, seed, kept, accesses)
    collector.follow(taken)
    for turn in turns(made.traces, made.slices):
        if turn is None:
            collector.stratum()
        else:
            collector.take(*turn)
    collector.finish()
    theirs = list[SliceProblem]()
    engine = SlicesEngine(
        iter_regions_of(kept.tables(shape.streams)), shape.streams,
        on_slice=lambda one, _: theirs.append(one.problem),
    )  # fmt: skip
    for region, problem in iter_problems(made.traces):
        engine.solve(region, problem)
    assert len(taken.slices) == len(theirs) > 0
    for handed, problem in zip(taken.slices, theirs, strict=True):
        ours = problem_of(handed)
        assert (ours.number, differing(ours, problem)) == (problem.number, [])
        assert problem_digest(ours) == problem_digest(problem)


def test_another_problem_has_another_digest() -> None:
    made, taken = make(1, SHAPES[1]), Taken()
    collector = SliceCollector(3, made.traces.memory_bytes, 1, Kept(), 8)
    collector.follow(taken)
    for turn in turns(made.traces, made.slices):
        if turn is not None:
            collector.take(*turn)
    collector.finish()
    problem = problem_of(max(taken.slices, key=lambda one: len(one.rows)))
    digests = {problem_digest(problem)}
    names = [field.name for field in fields(SliceProblem) if field.name not in ("number", "begun", "agrees")]
    for name in names:
        column = getattr(problem, name).copy()
        column[-1] += 1
        digests.add(problem_digest(replace(problem, **{name: column})))
    digests.add(problem_digest(replace(problem, agrees=not problem.agrees)))
    assert len(digests) == len(names) + 2
    assert problem_digest(replace(problem, number=problem.number + 1)) in digests


# -- recorded ---------------------------------------------------------------------------------------------


def searched(path: Path, program: Path, seed: int) -> Recorded:
    """A recording whose slices were searched while it was made."""
    return corebraid.record(
        program,
        path,
        seed=seed,
        evidence="slices",
        search_slices=True,
        cores=3,
        slice=200,
    )


def decided(recording: Recording, settings: Settings | None = None) -> tuple[Report, list[Decided]]:
    """What is said of its slices, and each of them."""
    found = list[Decided]()
    report = survey(recording, settings or Settings(), also=lambda one, _: found.append(one))
    return report, found


def facts(one: Decided) -> tuple[object, ...]:
    """What a search says of a slice, whoever has searched and however long that took."""
    found, minimal = one.found, minimal_of(one, Settings().nodes) if one.order.size else None
    return (
        one.problem.number, one.how, one.order.tolist(), one.pieces,
        found and (found.total, found.exhausted, found.work, found.backend),
        minimal and (minimal.found, minimal.total),
    )  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_what_was_found_is_what_a_search_afterwards_finds(program: Path, seed: int, tmp_path: Path) -> None:
    """Slice by slice: how it got its order, the order, how many there are, the constraints."""
    made = searched(tmp_path / "rec", program, seed)
    recording = Recording.open(tmp_path / "rec")
    assert made.search is not None
    assert (made.search.left, made.search.without, made.search.why) == (0, 0, "")
    report, taken_over = decided(recording)
    (tmp_path / "rec" / SLICES_FOUND).unlink()
    anew, afterwards = decided(recording)
    assert made.search.slices == report.kept == anew.kept > 0
    assert [facts(one) for one in taken_over] == [facts(one) for one in afterwards]
    assert (anew.ahead, anew.told) == (0, [])
    # What one thread does on several cores is taken to race; hardly ever does anything else besides.
    others = sum(not one.ahead for one in taken_over if one.problem.n)
    assert others <= (0 if program.suffix else 2)
    assert report.ahead == report.searched - others
    assert all(one.minimal is not None for one in taken_over if one.ahead)
    (line,) = report.told
    assert said(line).endswith(f": {report.ahead:,} of {report.searched:,}")


def test_the_rest_of_the_recording_is_the_same(tmp_path: Path) -> None:
    searched(tmp_path / "with", FIRMWARE / "litmus.elf", 3)
    corebraid.record(
        FIRMWARE / "litmus.elf", tmp_path / "without", seed=3, evidence="slices", cores=3, slice=200
    )
    files = {path.name: path.read_bytes() for path in (tmp_path / "with").iterdir()}
    assert files.pop(SLICES_FOUND)
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "without").iterdir()}


# -- files that say something else ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with many slices, all of them searched."""
    path = tmp_path_factory.mktemp("ahead") / "rec"
    searched(path, FIRMWARE / "litmus.elf", 1)
    return path


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def planted(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what is said of the tenth slice, with a mark that fits: as a defect of the search would."""
    identity = Recording.open(path).manifest.id
    header = FileHeader(KIND, 0, identity, 0, 1)
    frames = list(iter_frames(path / SLICES_FOUND, header))
    (path / SLICES_FOUND).unlink()
    writer, n = FrameWriter(path / SLICES_FOUND, header), 0
    for frame, raw in frames:
        told = json.loads(raw[32:])
        for entry in told.get("slices", ()):
            n += 1
            if n == 10:
                change(entry)
        payload = canonical(told)
        writer.append(
            _mark(identity, frame.sequence, payload) + payload, frame.records, frame.first, frame.last
        )
    writer.close()
    assert n > 10


def turned(entry: dict[str, Any]) -> None:
    entry["order"].reverse()


def twice(entry: dict[str, Any]) -> None:
    entry["order"][0] = entry["order"][-1]


def short(entry: dict[str, Any]) -> None:
    entry["order"].pop()


def other_way_round(entry: dict[str, Any]) -> None:
    first, second, always = entry["minimal"][0][0]
    entry["minimal"][0][0] = [second, first, always]


def nobody(entry: dict[str, Any]) -> None:
    entry["minimal"][0][0][0] = 10**6


def lost(entry: dict[str, Any]) -> None:
    del entry["how"]


def called(entry: dict[str, Any]) -> None:
    entry["how"] = CONTRADICTED


@pytest.mark.parametrize("change", [turned, twice, short, other_way_round, nobody, lost, called])
def test_a_wrong_result_is_noticed(copy: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """It is said, and that slice and all behind it are searched anew."""
    planted(copy, change)
    report, found = decided(Recording.open(copy))
    assert [one.ahead for one in found if one.problem.n].index(False) == report.ahead == 9
    used, why = map(said, report.told)
    assert used.endswith(f": 9 of {report.searched:,}")
    assert SLICES_FOUND in why
    assert why.endswith("; slices are searched anew")
    (copy / SLICES_FOUND).unlink()
    assert [facts(one) for one in decided(Recording.open(copy))[1]] == [facts(one) for one in found]


def test_a_change_that_is_none_changes_nothing(copy: Path) -> None:
    """That planting itself is not what is noticed."""
    planted(copy, lambda _: None)
    report, _ = decided(Recording.open(copy))
    assert (report.ahead, len(report.told)) == (report.searched, 1)


def test_a_result_of_another_problem_is_not_taken_over(copy: Path) -> None:
    planted(copy, lambda entry: entry.update(problem="0" * 32))
    report, found = decided(Recording.open(copy))
    assert (report.ahead, len(report.told)) == (report.searched - 1, 1)
    assert [one.ahead for one in found if one.problem.n].index(False) == 9


def altered(path: Path) -> None:
    raw = bytearray((path / SLICES_FOUND).read_bytes())
    raw[-40] ^= 1
    (path / SLICES_FOUND).write_bytes(raw)


def unmarked(path: Path) -> None:
    """All checksums right, as anybody can make them."""
    header = FileHeader(KIND, 0, Recording.open(path).manifest.id, 0, 1)
    frames = list(iter_frames(path / SLICES_FOUND, header))
    (path / SLICES_FOUND).unlink()
    writer = FrameWriter(path / SLICES_FOUND, header)
    for frame, raw in frames:
        told = raw[32:].replace(b'"always"', b'"never"').replace(b",true]", b",false]")
        writer.append(raw[:32] + told, frame.records, frame.first, frame.last)
    writer.close()


def foreign(path: Path) -> None:
    other = path.with_name("other")
    searched(other, FIRMWARE / "litmus.elf", 2)
    shutil.copy(other / SLICES_FOUND, path / SLICES_FOUND)


def empty(path: Path) -> None:
    (path / SLICES_FOUND).write_bytes(b"not at all")


def folder(path: Path) -> None:
    (path / SLICES_FOUND).unlink()
    (path / SLICES_FOUND).mkdir()


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (altered, "bad checksum"), (unmarked, "altered"), (foreign, "belongs to another recording"),
        (empty, "not a corebraid file"), (folder, "not a regular file"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_and_not_used(
    copy: Path, spoil: Callable[[Path], None], what: str
) -> None:
    before = [facts(one) for one in decided(Recording.open(copy))[1]]
    spoil(copy)
    report, found = decided(Recording.open(copy))
    assert what in said(report.told[1])
    assert report.ahead < report.searched
    assert [facts(one) for one in found] == before


def test_of_a_file_that_is_cut_what_is_there_is_used(copy: Path) -> None:
    """As a search that was killed leaves it."""
    path, header = copy / SLICES_FOUND, FileHeader(KIND, 0, Recording.open(copy).manifest.id, 0, 1)
    frames = list(iter_frames(path, header))
    told = [entry for _, raw in frames[1:] for entry in json.loads(raw[32:])["slices"]]
    path.unlink()
    again = FrameWriter(path, header)
    again.append(frames[0][1], 0, 0, 0)
    for number, half in enumerate((told[:20], told[20:]), 1):
        payload = canonical({"slices": half})
        mark = _mark(header.recording, number, payload)
        again.append(mark + payload, len(half), half[0]["slice"], half[-1]["slice"])
    again.close()
    path.write_bytes(path.read_bytes()[:-7])
    report, _ = decided(Recording.open(copy))
    assert (report.ahead, len(report.told)) == (20, 1)


def test_what_was_searched_in_another_way_is_not_used(made: Path) -> None:
    report, _ = decided(Recording.open(made), Settings(backend="cut"))
    assert report.ahead == 0
    assert "searched in another way" in said(report.told[1])


def test_what_another_version_has_found_is_not_used(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.evidence.lightplay.known.import_closure_digest", lambda _: "another")
    report, _ = decided(Recording.open(made))
    assert report.ahead == 0
    assert "another version" in said(report.told[1])


def test_there_need_be_no_file(copy: Path) -> None:
    (copy / SLICES_FOUND).unlink()
    assert KnownSlices.of(Recording.open(copy), Settings()) is None


# -- the search -------------------------------------------------------------------------------------------


def test_kernels_are_loaded_by_a_slice_that_has_an_order_and_one_that_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = list[Decided]()

    def note(handed: HandedSlice, settings: Settings) -> Decided:
        found.append(decide_ahead(handed, settings))
        return found[-1]

    monkeypatch.setattr(ahead_module, "decide_ahead", note)
    load_kernels(Settings())
    assert [one.how for one in found] == [FOUND, CONTRADICTED]
    assert [one.how for one in found] == [decide(one.problem, Settings()).how for one in found]
