"""Which conflicting accesses had to come in this order, and which could have changed: region by region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.names.places import Places
from corebraid.names.program import GuestProgram
from corebraid.names.selection import Selection
from corebraid.study.events import EventName, RegionEvents, data_name, find_events
from corebraid.study.freedom.numbering import few_traces
from recorder.files.missing_order import missing_edges
from recorder.files.reader import Recording
from solver.freedom.count import ONE, Executions, count_orders
from solver.freedom.freedom import Freedom, Limits, Survey, freedom_of
from solver.freedom.pairs import Order, Pairs, iter_pairs, tally
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Problem

#: What can be said of a pair, as `solver.freedom.pairs.Order` numbers it.
KINDS = ("must", "may", "undecided")


@dataclass(frozen=True)
class Pair:
    """Two conflicting events of a region. order: one of `KINDS`. data: the name of what they touch, "-" for
    none."""

    region: int
    order: str
    address: int
    size: int
    data: str
    events: RegionEvents
    first: int
    second: int

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "type": "pair",
            "region": self.region,
            "order": self.order,
            "addr": f"{self.address:#x}",
            "size": self.size,
            "data": None if self.data == "-" else self.data,
            "first": self.events.facts(self.first),
            "second": self.events.facts(self.second),
        }


@dataclass(frozen=True)
class RegionPairs:
    """A region. verdict: "legal", "illegal" or "undecided". unfiltered: its events. counts: pairs of each of
    `KINDS`. executions: how many differ, if that was asked for."""

    region: int
    verdict: str
    unfiltered: int
    counts: dict[str, int]
    executions: Executions | None

    def facts(self) -> dict[str, object]:
        """As JSON."""
        facts: dict[str, object] = {
            "type": "region",
            "region": self.region,
            "verdict": self.verdict,
            "unfiltered": self.unfiltered,
            **self.counts,
        }
        return facts if self.executions is None else facts | {"executions": self.executions.facts()}


@dataclass(frozen=True)
class AllPairs:
    """All regions together. illegal: those without a legal order. limited: whether the limit ended it."""

    counts: dict[str, int]
    missing_edges: list[str]
    illegal: list[int]
    limited: bool
    executions: Executions | None

    def facts(self) -> dict[str, object]:
        """As JSON."""
        facts: dict[str, object] = {
            "type": "total",
            **self.counts,
            "missing_edges": self.missing_edges,
        }
        return facts if self.executions is None else facts | {"executions": self.executions.facts()}


@dataclass(frozen=True)
class Direction:
    """One direction of a pair. order: operations in a legal order with the first before the second, None for
    none that is known. decided: whether there is none where none is known."""

    first: int
    second: int
    order: list[int] | None
    decided: bool


@dataclass(frozen=True)
class Witness:
    """A legal order for each direction of a pair that is possible."""

    region: int
    events: RegionEvents
    directions: list[Direction]

    @property
    def impossible(self) -> bool:
        """Whether neither direction is."""
        return all(one.decided and one.order is None for one in self.directions)

    def facts(self) -> dict[str, object]:
        """As JSON."""
        events = self.events
        return {
            "region": self.region,
            "directions": [
                {
                    "first": events.facts(one.first),
                    "second": events.facts(one.second),
                    "possible": one.order is not None if one.decided else None,
                    "order": None if one.order is None else [events.name(op) for op in one.order],
                }
                for one in self.directions
            ],
        }


@dataclass(frozen=True)
class Wanted:
    """What pairs are listed. kinds: of `KINDS`, none for only how many there are. limit: at most so many.
    constraints: see `RecordingTraces`."""

    selection: Selection
    kinds: tuple[str, ...]
    limit: int | None
    limits: Limits
    constraints: str

    @property
    def names_most(self) -> bool:
        """Whether events of most regions are named, so that all of their accesses are looked at."""
        return "must" in self.kinds and self.selection.region is None


def iter_pair_list(
    recording: Recording, program: GuestProgram, wanted: Wanted, progress: Callable[[int], None]
) -> Iterator[Pair | RegionPairs | AllPairs]:
    """The pairs of each region and after them the region, at last all regions. progress: called with how many
    regions are done. Raises OrderError, FormatError, Divergence."""
    total: Counter[str] = Counter()
    illegal: list[int] = []
    executions, left, last = ONE, wanted.limit, wanted.selection.region
    n_cores = recording.manifest.n_cores
    traces, numbering = few_traces(recording, wanted.constraints, every=wanted.names_most)
    for region, problem in iter_problems(traces):
        if last is not None and region.index != last:
            if region.index > last:
                break
            continue
        if problem.n_ops:
            freedom = freedom_of(problem, wanted.limits)
            events = RegionEvents(region, problem, Places(program, n_cores), n_cores, numbering)
            for pair in _listed(program, wanted, events, problem, freedom, left):
                left = None if left is None else left - 1
                yield pair
            summary = _summary(problem, freedom, wanted)
            if summary.executions is not None:
                executions = executions * summary.executions
            total.update(summary.counts)
            illegal += [region.index] if summary.verdict == "illegal" else []
            yield summary
        progress(region.index + 1)
        if left == 0:
            break
    counts = {name: total[name] for name in KINDS}
    missing = missing_edges(recording.manifest)
    yield AllPairs(counts, missing, illegal, left == 0, None if wanted.kinds else executions)


def _summary(problem: Problem, freedom: Freedom, wanted: Wanted) -> RegionPairs:
    counts = {KINDS[order]: n for order, n in tally(freedom).items()}
    executions = None if wanted.kinds else count_orders(problem, wanted.limits).executions
    return RegionPairs(problem.region, freedom.verdict.value, problem.n_ops, counts, executions)


def _listed(
    program: GuestProgram,
    wanted: Wanted,
    events: RegionEvents,
    problem: Problem,
    freedom: Freedom,
    limit: int | None,
) -> Iterator[Pair]:
    if not wanted.kinds:
        return
    only = frozenset(Order(KINDS.index(kind)) for kind in wanted.kinds)
    listed = 0
    for pairs in iter_pairs(freedom, only):
        for at in _chosen(pairs, problem, wanted.selection).tolist():
            if listed == limit:
                return
            listed += 1
            yield _pair(pairs, at, problem, program, events)


def _chosen(pairs: Pairs, problem: Problem, selection: Selection) -> NDArray[np.intp]:
    chosen = np.ones(len(pairs.first), bool)
    if selection.core is not None:
        streams = problem.stream_core[problem.op_stream]
        chosen &= (streams[pairs.first] == selection.core) | (streams[pairs.second] == selection.core)
    if selection.addresses is not None:
        low, high = np.uint64(selection.addresses.low), selection.addresses.high
        address = problem.address[pairs.granule]
        chosen &= address <= np.uint64(high - 1)
        chosen &= address + problem.size[pairs.granule].astype(np.uint64) > low
    return np.flatnonzero(chosen)


def _pair(pairs: Pairs, at: int, problem: Problem, program: GuestProgram, events: RegionEvents) -> Pair:
    granule = int(pairs.granule[at])
    address, size = int(problem.address[granule]), int(problem.size[granule])
    first, second, order = int(pairs.first[at]), int(pairs.second[at]), KINDS[int(pairs.order[at])]
    data = data_name(program, address)
    return Pair(problem.region, order, address, size, data, events, first, second)


def witness_of(
    recording: Recording, program: GuestProgram, text: str, limits: Limits, constraints: str
) -> Witness:
    """A legal order for each direction of the pair 'EVENT,EVENT'. Raises UsageError, FormatError."""
    n_cores = recording.manifest.n_cores
    names = [EventName.parse(part, n_cores) for part in text.split(",")]
    if len(names) != 2:
        remedy = Phrase("write ", Option("witness"), " EVENT,EVENT")
        raise UsageError("not two events", found=repr(text), remedy=remedy)
    traces, numbering = few_traces(recording, constraints)
    found = find_events(traces, names, numbering)
    problem = found[0].problem
    a, b = (event.op for event in found)
    if names[0].stream == names[1].stream:
        raise UsageError("two events of one core: program order says which is first", found=text)
    events = RegionEvents(found[0].region, problem, Places(program, n_cores), n_cores, numbering)
    survey, directions = Survey(problem, limits), []
    for first, second in ((a, b), (b, a)):
        order, decided = survey.witness(first, second)
        listed = None if order is None else order.tolist()
        directions.append(Direction(first, second, listed, decided))
    return Witness(problem.region, events, directions)
