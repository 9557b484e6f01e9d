"""What became of the slices of a recording: the figures that the paper reports, and one slice in full."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from corebraid.base.errors import Contradiction
from corebraid.base.wording import Text
from recorder.files.reader import Recording
from recorder.replay.traces import Progress, RecordingTraces
from solver.evidence.lightplay.constraints import Constraint
from solver.evidence.lightplay.decide import CONTRADICTED, FOUND, NOTHING, UNDECIDED, Decided, Settings
from solver.evidence.lightplay.engine import OnSlice, SlicesEngine
from solver.evidence.lightplay.minimal import minimal_of
from solver.passes.unfiltered import iter_problems


@dataclass(frozen=True)
class Shown:
    """One slice in full. events: EVENT (n,), its accesses on places where they race, in the order of the
    operations. total: how many orders are legal with the values that the cores saw."""

    decided: Decided
    events: NDArray[Any]
    constraints: list[Constraint]
    total: int


@dataclass
class Report:
    """Totals over all slices. entries: of the evidence, which number them. how: kept slices by what became
    of them. undecided: numbers of those without an order. sizes: by accesses that race. seconds: searching;
    deciding, with all that follows a search; fixing, where no order that was found replays; minimal
    constraints. orders: correct ones that the searches
    found in all. work: interleavings tried or cuts explored. ahead: slices that were searched while they were
    recorded; told: what there is to say of that."""

    slices: int = 0
    entries: int = 0
    kept: int = 0
    how: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    search_seconds: float = 0.0
    seconds: float = 0.0
    fixing_seconds: float = 0.0
    constraint_seconds: float = 0.0
    constraints: int = 0
    always: int = 0
    orders: int = 0
    work: int = 0
    split: int = 0
    ahead: int = 0
    told: list[Text] = field(default_factory=list)
    regions: Counter[str] = field(default_factory=Counter)
    undecided: list[int] = field(default_factory=list)
    shown: Shown | None = None

    @property
    def searched(self) -> int:
        """Kept slices in which accesses race after refinement."""
        return self.kept - self.how[NOTHING]

    @property
    def fixed(self) -> int:
        """Slices whose first orders did not replay, or that had none."""
        return self.searched - self.how[FOUND] - len(self.undecided)


class Survey:
    """Takes slices as the engine decides them. wanted: number of the one to show. constraints: whether to
    work out those of all slices."""

    def __init__(self, settings: Settings, wanted: int | None = None, *, constraints: bool = True) -> None:
        self.report, self._settings = Report(), settings
        self._wanted, self._constraints = wanted, constraints

    def take(self, decided: Decided, events: Any) -> None:
        """One kept slice and its accesses."""
        report, problem = self.report, decided.problem
        report.kept += 1
        report.how[decided.how] += 1
        report.sizes[problem.n] += 1
        report.search_seconds += decided.search_seconds
        report.seconds += decided.seconds
        report.fixing_seconds += decided.fixing_seconds
        report.split += int(decided.pieces > 1)
        report.ahead += int(decided.ahead)
        if decided.found:
            report.orders += decided.found.total
            report.work += decided.found.work
        open_ = decided.how in (UNDECIDED, CONTRADICTED)
        if open_:
            report.undecided.append(problem.number)
        found: list[Constraint] = []
        total = 0
        if problem.n and not open_ and (self._constraints or problem.number == self._wanted):
            minimal = minimal_of(decided, self._settings.nodes)
            found, total = minimal.found, minimal.total
            report.constraint_seconds += minimal.seconds
            report.constraints += len(found)
            report.always += sum(one.always for one in found)
        if problem.number == self._wanted:
            report.shown = Shown(decided, events[problem.access], found, total)


def survey(
    recording: Recording,
    settings: Settings,
    wanted: int | None = None,
    progress: Progress | None = None,
    *,
    constraints: bool = True,
    also: OnSlice | None = None,
) -> Report:
    """Decide all slices of a recording; what was found of them while it was made is taken over. wanted: one
    to show; the slices after it are left out then. also: shown every slice that was kept. Raises UsageError
    (no such evidence; a slice too long for the back end), FormatError, Contradiction where the evidence is
    not of these events at all."""
    taking = Survey(settings, wanted, constraints=constraints)

    def take(decided: Decided, events: Any) -> None:
        taking.take(decided, events)
        if also is not None:
            also(decided, events)

    engine = SlicesEngine.of(recording, settings, take)
    engine.take_over(recording)
    for region, problem in iter_problems(RecordingTraces(recording, progress)):
        before = engine.entries
        try:
            verdict = engine.solve(region, problem).verdict.value
        except Contradiction:
            if engine.entries == before:
                raise
            verdict = CONTRADICTED
        taking.report.regions[verdict] += 1
        taking.report.slices, taking.report.entries = engine.slices, engine.entries
        if wanted is not None and engine.entries > wanted:
            break
    taking.report.told = engine.told()
    return taking.report
