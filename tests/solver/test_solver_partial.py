"""What an interrupted ordering leaves is used by the next one, and only for what it was kept for."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_suite import RECORDING
from trace_factory import Shape, make

from corebraid.base.errors import FormatError, OrderError
from corebraid.base.wording import said
from corebraid.cli.wording import TYPED
from solver.passes import answers as answers_module
from solver.passes.answers import Options, solve
from solver.passes.order import Resources, order_recording
from solver.passes.partial import Partial
from solver.passes.results import OrderResult
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.traces import MemoryTraces

LONG = Shape(steps=120, strata=0.1)


class Bench:
    """A recording, a place for its files, and which regions were solved."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.traces: MemoryTraces = make(6, LONG).traces
        self.folder, self.keep, self.certificate = folder, folder / "order.partial", folder / "c"
        self.said: list[str] = []
        self.solved: list[int] = []
        self.stop: dict[int, BaseException | str] = {}
        monkeypatch.setattr(answers_module, "solve", self.solve)

    def solve(self, problem: Problem, options: Options) -> Solution:
        what = self.stop.get(problem.region, "")
        if isinstance(what, BaseException):
            raise what
        if what:
            return Solution(Verdict.UNDECIDED, "cut", 0.0, no_order(), what)
        if problem.n_ops:
            self.solved.append(problem.region)
        return solve(problem, options)

    def order(self, jobs: int = 1, fresh: bool = False, options: Options | None = None) -> OrderResult:
        self.said.clear()
        self.solved.clear()
        resources = Resources(jobs, keep=self.keep, fresh=fresh, say=self.said.append)
        return order_recording(self.traces, self.certificate, RECORDING, options, None, resources)

    def hard(self) -> list[int]:
        """Regions with something to solve; afterwards nothing is kept."""
        self.order()
        assert not self.keep.exists()
        self.expected = self.certificate.read_bytes()
        self.certificate.unlink()
        return list(self.solved)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_ordering_goes_on(bench: Bench, jobs: int) -> None:
    hard = bench.hard()
    bench.stop[hard[4]] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench.order()
    assert [p.name for p in bench.folder.iterdir()] == ["order.partial"]
    bench.stop.clear()
    assert bench.order(jobs).verdict is Verdict.LEGAL
    assert [said(text, TYPED) for text in bench.said] == [
        "4 solved regions are kept from an earlier run (--fresh starts over)"
    ]
    if jobs == 1:
        assert bench.solved == hard[4:]
    assert bench.certificate.read_bytes() == bench.expected
    assert not bench.keep.exists()


def test_only_undecided_regions_are_tried_again(bench: Bench) -> None:
    hard = bench.hard()
    bench.stop = {hard[1]: "timeout", hard[3]: "budget"}
    assert bench.order().verdict is Verdict.UNDECIDED
    assert bench.order().verdict is Verdict.UNDECIDED
    assert bench.solved == []
    bench.stop.clear()
    assert bench.order().verdict is Verdict.LEGAL
    assert bench.solved == [hard[1], hard[3]]
    assert bench.certificate.read_bytes() == bench.expected


def test_what_several_processes_finish_is_kept_too(bench: Bench) -> None:
    hard = bench.hard()
    bench.stop = {hard[2]: "timeout"}
    bench.order(jobs=2)
    bench.stop.clear()
    bench.order()
    assert bench.solved == [hard[2]]
    assert bench.certificate.read_bytes() == bench.expected


def unfinished(bench: Bench) -> list[int]:
    hard = bench.hard()
    bench.stop = {hard[2]: "timeout"}
    bench.order()
    bench.stop.clear()
    return hard


def test_fresh_starts_over(bench: Bench) -> None:
    hard = unfinished(bench)
    bench.order(fresh=True)
    assert (bench.solved, bench.said) == (hard, [])


def test_other_options_or_another_solver_start_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hard = unfinished(bench)
    kept = bench.keep.read_bytes()
    bench.order(options=Options(engine="cut"))
    assert bench.solved == hard
    assert bench.said == [
        "order.partial: kept by another version of the solver or for other options; starting over "
        f"(where: {bench.keep})"
    ]
    bench.keep.write_bytes(kept)
    monkeypatch.setattr("solver.passes.partial.solver_digest", lambda: bytes(16))
    bench.order()
    assert bench.solved == hard


def test_no_damage_is_fatal_and_what_is_used_is_right(bench: Bench) -> None:
    hard = unfinished(bench)
    kept = bench.keep.read_bytes()
    for at in range(0, len(kept), 7):
        bench.keep.write_bytes(kept[:at] + bytes([kept[at] ^ 0x10]) + kept[at + 1 :])
        assert bench.order().verdict is Verdict.LEGAL, f"byte {at}"
        assert bench.solved == hard, f"byte {at}"
        assert len(bench.said) == 1
        assert bench.said[0].endswith(f"{bench.keep})") or "offset" in bench.said[0]
        assert bench.certificate.read_bytes() == bench.expected, f"byte {at}"


def test_a_cut_tail_loses_its_region_only(bench: Bench) -> None:
    hard = unfinished(bench)
    bench.keep.write_bytes(bench.keep.read_bytes()[:-3])
    bench.order()
    assert bench.solved == [hard[2], hard[-1]]
    assert bench.certificate.read_bytes() == bench.expected


def test_another_recordings_file_is_not_used(bench: Bench) -> None:
    hard = unfinished(bench)
    bench.traces = make(7, LONG).traces
    bench.order()
    other = bench.certificate.read_bytes()
    bench.traces = make(6, LONG).traces
    unfinished(bench)
    bench.traces = make(7, LONG).traces
    bench.order()
    assert bench.certificate.read_bytes() == other
    assert len(hard) > 5


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_kept_order_that_is_wrong_is_found_by_the_checker(
    bench: Bench, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hard = unfinished(bench)
    find = Partial.find

    def forged(self: Partial, problem: Problem):  # type: ignore[no-untyped-def]
        found = find(self, problem)
        if found is not None and problem.region == hard[0]:
            found.rows[:] = found.rows[::-1]
            found.stream[:] = found.stream[::-1]
        return found

    monkeypatch.setattr(Partial, "find", forged)
    bench.order(jobs)
    if jobs == 1:
        assert bench.solved == [hard[0], hard[2]]
    assert bench.certificate.read_bytes() == bench.expected


def test_an_engines_wrong_order_is_an_error_and_is_not_kept_silently(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hard()

    def wrong(problem: Problem, options: Options) -> Solution:
        solution = solve(problem, options)
        return Solution(solution.verdict, "wrong", 0.0, solution.order[::-1].copy())

    monkeypatch.setattr(answers_module, "solve", wrong)
    monkeypatch.setattr(answers_module, "_compare_initial", lambda *_: None)
    with pytest.raises(OrderError, match="does not read what memory holds"):
        bench.order()


def test_a_file_that_has_no_room_is_not_left_half(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is written goes to a device that has none."""
    opened = Path.open

    def full(path: Path, *how: object, **more: object) -> object:
        if path.suffix != ".new":
            return opened(path, *how, **more)  # type: ignore[call-overload]
        path.touch()
        return opened(Path("/dev/full"), "wb", 0)

    monkeypatch.setattr(Path, "open", full)
    told = r"order\.partial\.new: cannot be written \(No space left on device\); make room, and run the same"
    with pytest.raises(FormatError, match=told):
        bench.order()
    assert not list(bench.folder.iterdir())
