"""How many legal orders the regions of a recording have."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from corebraid.study.freedom.numbering import few_traces
from recorder.files.reader import Recording
from solver.freedom.count import ONE, Count, count_orders
from solver.freedom.freedom import Limits
from solver.passes.unfiltered import iter_problems


@dataclass(frozen=True)
class Counted:
    """The number of legal orders of every region, from the first to the last. budget: cuts that were to be
    explored in one at most."""

    regions: list[Count]
    budget: int

    @property
    def total(self) -> Count:
        """Of the whole recording: regions combine freely."""
        counts, orders = self.regions, 1
        for count in counts:
            orders *= count.orders
        none = any(count.exact and not count.orders for count in counts)
        exact = all(count.exact for count in counts) or none
        executions = reduce(operator.mul, (count.executions for count in counts), ONE)
        return Count(orders, exact, sum(count.cuts for count in counts), self.budget, executions)

    def facts(self) -> dict[str, object]:
        """As JSON. Numbers of orders are decimal strings: they may have any number of digits."""
        return {
            "counted": "orders of the unfiltered events of each region",
            "budget_cuts": self.budget,
            "all": _facts(self.total),
            "by_region": [{"region": number, **_facts(count)} for number, count in enumerate(self.regions)],
        }


def count_regions(
    recording: Recording, limits: Limits, constraints: str, progress: Callable[[int], None]
) -> Counted:
    """Count the legal orders of every region. constraints: see `RecordingTraces`. progress: called with how
    many regions are done."""
    counts = []
    traces, _ = few_traces(recording, constraints)
    for region, problem in iter_problems(traces):
        counts.append(count_orders(problem, limits))
        progress(region.index + 1)
    return Counted(counts, limits.cuts)


def _facts(count: Count) -> dict[str, object]:
    return {
        "exact": count.exact,
        "orders": str(count.orders) if count.exact else None,
        "more_than": None if count.exact or not count.orders else str(count.orders - 1),
        "meaning": count.words,
        "cuts": count.cuts,
        "executions": count.executions.facts(),
    }
