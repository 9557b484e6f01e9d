"""`corebraid order --count` and `--choose`: the parts of the command that look at regions by themselves."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import reduce

import click

from corebraid.cli import console
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.freedom.count import ONE, Count, count_orders, shorten
from solver.freedom.freedom import Limits
from solver.passes.answers import Options
from solver.passes.unfiltered import iter_problems

#: Regions of one order each are not listed beyond so many lines.
_MOST_ROWS = 40


def with_choice(options: Options, choice: str, recording: Recording, cuts: int, constraints: str) -> Options:
    """The options with a choice of order, from what the user wrote. constraints: see `RecordingTraces`.

    Raises UsageError."""
    from corebraid.cli.events import parse_choice

    parsed = parse_choice(
        choice, RecordingTraces(recording, constraints=constraints), recording.manifest.n_cores
    )
    return replace(options, choice=parsed, nodes=cuts)


def count_regions(recording: Recording, limits: Limits, constraints: str) -> list[Count]:
    """The number of legal orders of every region, from the first to the last. constraints: see
    `RecordingTraces`."""
    counts = []
    with console.progress("regions counted") as show:
        for region, problem in iter_problems(RecordingTraces(recording, constraints=constraints)):
            counts.append(count_orders(problem, limits))
            show(region.index + 1)
    return counts


def total_of(counts: list[Count], budget: int) -> Count:
    """Of the whole recording: regions combine freely."""
    orders = 1
    for count in counts:
        orders *= count.orders
    exact = all(count.exact for count in counts) or any(count.exact and not count.orders for count in counts)
    executions = reduce(operator.mul, (count.executions for count in counts), ONE)
    return Count(orders, exact, sum(count.cuts for count in counts), budget, executions)


def count_facts(counts: list[Count], budget: int) -> dict[str, object]:
    """As JSON. Numbers of orders are decimal strings: they may have any number of digits."""
    return {
        "orders": {
            "counted": "orders of the unfiltered events of each region",
            "budget_cuts": budget,
            "all": _facts(total_of(counts, budget)),
            "by_region": [{"region": number, **_facts(count)} for number, count in enumerate(counts)],
        }
    }


def _facts(count: Count) -> dict[str, object]:
    return {
        "exact": count.exact,
        "orders": str(count.orders) if count.exact else None,
        "more_than": None if count.exact or not count.orders else str(count.orders - 1),
        "meaning": count.words,
        "cuts": count.cuts,
        "executions": count.executions.facts(),
    }


def show_counts(counts: list[Count], budget: int) -> None:
    """A line for each region, and for all."""
    for number, count in enumerate(counts[:_MOST_ROWS]):
        click.echo(f"region {number}: {count.words}{_different(count)}")
    if len(counts) > _MOST_ROWS:
        click.echo(f"... {len(counts) - _MOST_ROWS} more regions (--json has all)")
    total = total_of(counts, budget)
    if total.orders:
        text = shorten(total.orders) if total.exact else f"more than {shorten(total.orders - 1)}"
        plural = "" if text == "1" else "s"
        click.echo(f"all regions together: {text} order{plural}{_different(total)}")


def _different(count: Count) -> str:
    """How many executions that many orders are, where there are several."""
    return f", {count.executions.words}" if count.orders > 1 else ""
