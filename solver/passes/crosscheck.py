"""Cross-check: several engines order the same regions, each from what it knows, and are held against each
other.

Every order passes the independent checker (solver/check/region_walk.py), region by region and across their
seams. One that does not, evidence that contradicts the replay, or a region that is legal to one engine and
illegal to another, is a disagreement. Regions in which nothing is left to order tell nothing of an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.errors import Contradiction, OrderError
from corebraid.base.wording import said
from solver.passes.ahead import regions_ahead
from solver.passes.answers import Counts, Options, answer_of, solution_of
from solver.passes.ledger import Ledger
from solver.passes.quiet import quiet_problems
from solver.passes.reads_from import BEGIN, Difference, compare, reads_from
from solver.passes.stages import Walks, sift_region
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.quiet import Quiet, Stretch
from solver.regions.region import Region
from solver.regions.traces import Traces
from solver.sifting.words import WordTable

#: How an engine's order stands to the first engine's.
FIRST, IDENTICAL, EQUIVALENT, DIFFERS, NOTHING = "first", "identical", "equivalent", "differs", "-"
#: It has none, since its evidence contradicts the replay; there is nothing to order.
CONTRADICTS, EMPTY = "contradicts", "empty"
#: Told with the event.
_EVIDENCE = "the evidence contradicts the replay"


@dataclass(frozen=True)
class Contender:
    """An engine that takes part. options: how it solves."""

    name: str
    options: Options


@dataclass(frozen=True)
class Row:
    """One engine, one region. checked: whether its order passed the checker; False also if it has none.
    agrees: FIRST, IDENTICAL, EQUIVALENT (`why` says in what they differ), DIFFERS, CONTRADICTS (`why` says at
    which event), EMPTY, or NOTHING, not compared. events: the region's unfiltered operations."""

    engine: str
    region: int
    verdict: Verdict
    checked: bool
    seconds: float
    agrees: str
    why: str
    events: int = 0


@dataclass
class _Standing:
    """What one engine has come to."""

    contender: Contender
    ledger: Ledger
    walks: Walks
    rows: list[Row] = field(default_factory=list)
    out: str = ""


@dataclass(frozen=True)
class CrossCheck:
    """The rows, by region and engine, and what is wrong, each in a line that names the event."""

    rows: list[Row]
    disagreements: list[str]


def crosscheck(
    traces: Traces,
    contenders: list[Contender],
    on_region: Callable[[int], None] | None = None,
    on_order: Callable[[str, Ledger], None] | None = None,
) -> CrossCheck:
    """Let every contender order every region; the first is what the others are compared with.

    on_order: given, of each engine of which no order was refused, its name and all that it answered.
    Raises OrderError if the recording itself is damaged, so that no order can exist.
    """
    if not contenders:
        return CrossCheck([], [])
    standings = [_Standing(contender, Ledger(traces), Walks(traces)) for contender in contenders]
    disagreements: list[str] = []
    words = WordTable()
    try:
        with regions_ahead(traces) as regions:
            for region in regions:
                disagreements += _one_stretch(region, words, standings)
                if on_region is not None:
                    on_region(standings[0].ledger.composed)
        disagreements += _miscounts(standings)
        if traces.has_final:
            disagreements += _ends(standings, traces.final())
        for standing in standings:
            if on_order is not None and not standing.out:
                on_order(standing.contender.name, standing.ledger)
    finally:
        for standing in standings:
            standing.ledger.close()
    rows = [row for standing in standings for row in standing.rows]
    return CrossCheck(sorted(rows, key=lambda row: row.region), disagreements)


def _one_stretch(stretch: Stretch, words: WordTable, standings: list[_Standing]) -> list[str]:
    if isinstance(stretch, Quiet):
        for standing in standings:
            standing.ledger.compose_quiet(stretch)
        wrong = [_one_region(*found, standings) for found in quiet_problems(stretch)]
        return [line for lines in wrong for line in lines]
    sifted = sift_region(stretch, words)
    for standing in standings:
        # They all compose the same from the same.
        problem = standing.ledger.compose(stretch, sifted)
    return _one_region(stretch, problem, standings)


def _one_region(region: Region, problem: Problem, standings: list[_Standing]) -> list[str]:
    wrong: list[str] = []
    first: tuple[Verdict, NDArray[np.int64]] | None = None
    for standing in standings:
        row, source = _solve(region, problem, standing)
        if standing is standings[0]:
            first = row.verdict, source
            row = row if row.agrees == CONTRADICTS else replace(row, agrees=FIRST)
        elif first is not None and row.agrees != CONTRADICTS:
            row, told = _compare(problem, standings[0].contender.name, first, row, source)
            wrong += told
        if row.agrees == CONTRADICTS or (row.verdict is Verdict.LEGAL and not row.checked):
            by = f"{_EVIDENCE}: " if standing.contender.options.evidence is not None else ""
            wrong.append(f"region {region.index}, engine {row.engine}: {by}{row.why}")
        if not problem.n_ops and row.checked:
            row = replace(row, agrees=EMPTY)
        standing.rows.append(replace(row, events=problem.n_ops))
    return wrong


def _solve(region: Region, problem: Problem, standing: _Standing) -> tuple[Row, NDArray[np.int64]]:
    """One engine's answer, walked by the checker, and its reads-from map (empty if it has no order)."""
    name, options = standing.contender.name, standing.contender.options
    nothing = np.empty(0, np.int64)
    if standing.out:
        return Row(name, region.index, Verdict.UNDECIDED, False, 0.0, NOTHING, standing.out), nothing
    began = working_time()
    checked, why = False, ""
    try:
        solution = solution_of(problem, options, region)
    except Contradiction as error:
        standing.out = "out since its evidence contradicts the replay"
        why, seconds = said(error.found), working_time() - began
        return Row(name, region.index, Verdict.UNDECIDED, False, seconds, CONTRADICTS, why), nothing
    seconds = working_time() - began
    try:
        got = answer_of(problem, solution)
        if standing.ledger.answer(region.index, got):
            standing.ledger.walked(standing.walks.walk(region, *standing.ledger.runs(region.index)))
        checked = got.verdict is Verdict.LEGAL
    except OrderError as error:
        standing.out = "out since the checker refused its order"
        why = error.line()
    source = _source(problem, solution) if checked else nothing
    return Row(
        name, region.index, solution.verdict, checked, seconds, NOTHING, why or solution.reason
    ), source


def _source(problem: Problem, solution: Solution) -> NDArray[np.int64]:
    if problem.buffered or problem.n_ops == 0:
        return np.full(len(problem.granule), BEGIN, np.int64)
    return reads_from(problem, solution.order)


def _compare(
    problem: Problem,
    named: str,
    first: tuple[Verdict, NDArray[np.int64]],
    row: Row,
    source: NDArray[np.int64],
) -> tuple[Row, list[str]]:
    """The row with how it agrees, and what is wrong."""
    decided = {row.verdict, first[0]} <= {Verdict.LEGAL, Verdict.ILLEGAL}
    if decided and row.verdict is not first[0]:
        told = f"region {row.region}: {row.verdict.value} to {row.engine}, {first[0].value} to {named}"
        return replace(row, agrees=DIFFERS), [f"{told}{'; ' + row.why if row.why else ''}"]
    if row.verdict is not Verdict.LEGAL or first[0] is not Verdict.LEGAL:
        return row, []
    if not row.checked:
        return replace(row, agrees=DIFFERS), []
    if len(first[1]) != len(source) or problem.buffered:
        # What a store buffer answers is not told apart.
        return row, []
    found = compare(problem, first[1], source)
    if not found.other:
        return replace(row, agrees=IDENTICAL), []
    text = _told(problem, found, named, row.engine)
    if found.same_values:
        return replace(row, agrees=EQUIVALENT, why=text), []
    return replace(row, agrees=DIFFERS, why=text), [f"region {row.region}: {text}"]


def _told(problem: Problem, found: Difference, one: str, two: str) -> str:
    """The first event whose sources differ, in words."""
    where = f"{event_of(problem, found.part)} read {event_of(problem, found.one)} to {one}"
    same = "of the same value" if found.same_values else "of another value"
    return (
        f"{found.other} of {found.reads} accesses found another write {same}; "
        f"{where}, {event_of(problem, found.two)} to {two}"
    )


def event_of(problem: Problem, part: int) -> str:
    """A part in words: stream, number of its row in the region, address."""
    if part == BEGIN:
        return "the value at the begin"
    op = int(problem.part_op[part])
    stream, row = int(problem.op_stream[op]), int(problem.end_row[op]) - 1
    return f"stream {stream} row {row} at {int(problem.address[problem.granule[part]]):#x}"


def _miscounts(standings: list[_Standing]) -> list[str]:
    """What evidence that has contradicted nowhere says of the whole run, and is not so."""
    wrong: list[str] = []
    for standing in standings:
        evidence = standing.contender.options.evidence
        if not standing.out and isinstance(evidence, Counts) and (what := evidence.miscounted()):
            wrong.append(f"engine {standing.contender.name}: {_EVIDENCE}: {what}")
    return wrong


def _ends(standings: list[_Standing], final: NDArray[np.uint8]) -> list[str]:
    """Memory at the end of every engine's order against the final image."""
    wrong = []
    for standing in standings:
        if standing.out:
            continue
        try:
            standing.ledger.finish(final)
        except OrderError as error:
            standing.out = "out since the checker refused its order"
            by = f"{_EVIDENCE}: " if standing.contender.options.evidence is not None else ""
            wrong.append(f"engine {standing.contender.name}: {by}{error.line()}")
    return wrong
