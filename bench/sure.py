"""How sure an order is: must and may of every conflicting pair, and the number of legal orders, by the kind
of values that a region holds (`bench.ordering_traces`). Times are processor time."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from rich.console import Console

from bench.ordering_traces import CLASSES, region
from bench.report import Column, Table, publish
from solver.freedom.count import count_orders
from solver.freedom.freedom import Limits, freedom_of
from solver.freedom.pairs import Order, tally

EVENTS, CORES, SEEDS = 500, 8, 5
#: Smaller regions for the count, whose graph is not reduced.
COUNT_EVENTS, COUNT_CORES = 500, 3
LIMITS = Limits()


@dataclass
class Measured:
    """One class of values. seconds: one entry a region. pairs: by order, over all regions. exact: regions
    of which nothing was left open."""

    seconds: list[float]
    pairs: dict[Order, int]
    exact: int = 0


def measure_pairs(kind: str, events: int, cores: int, seeds: int) -> Measured:
    """Decide every pair of some regions."""
    found = Measured([], dict.fromkeys(Order, 0))
    for seed in range(seeds):
        problem = region(kind, cores=cores, events=events, seed=seed)
        began = time.process_time()
        freedom = freedom_of(problem, LIMITS)
        counts = tally(freedom)
        found.seconds.append(time.process_time() - began)
        found.exact += freedom.exact
        for order, n in counts.items():
            found.pairs[order] += n
    return found


def pairs_table(events: int, cores: int, seeds: int, classes: tuple[str, ...]) -> Table:
    """Seconds and shares of must and may."""
    table = Table(
        "sure_pairs",
        f"Must and may of every conflicting pair: regions of {events} events on {cores} cores, 16 granules",
        [
            Column("values"), Column("pairs", ",.0f"), Column("must %", ".1f"), Column("may %", ".1f"),
            Column("undecided %", ".2f"), Column("all decided", ""), Column("median ms", ",.0f"),
            Column("most ms", ",.0f"),
        ],
        [f"{seeds} regions of each kind, 15 granules with lock words; pairs: mean of a region."],
    )  # fmt: skip
    for kind in classes:
        found = measure_pairs(kind, events, cores, seeds)
        total = max(sum(found.pairs.values()), 1)
        table.add(
            kind,
            total / seeds,
            *(100 * found.pairs[order] / total for order in Order),
            f"{found.exact} of {seeds}",
            1000 * statistics.median(found.seconds),
            1000 * max(found.seconds),
        )
    return table


def count_table(events: int, cores: int, seeds: int, classes: tuple[str, ...]) -> Table:
    """Seconds and size of the number of legal orders."""
    table = Table(
        "sure_count",
        f"Number of legal orders: regions of {events} events on {cores} cores, 16 granules",
        [
            Column("values"), Column("exact", ""), Column("orders (median)", ""),
            Column("cuts (median)", ",.0f"), Column("median ms", ",.0f"), Column("most ms", ",.0f"),
        ],
        [f"{seeds} regions of each kind; beyond {LIMITS.cuts:,} cuts it is a lower bound."],
    )  # fmt: skip
    for kind in classes:
        seconds, orders, cuts, exact = [], [], [], 0
        for seed in range(seeds):
            problem = region(kind, cores=cores, events=events, seed=seed)
            began = time.process_time()
            count = count_orders(problem, LIMITS)
            seconds.append(time.process_time() - began)
            orders.append(count.orders)
            cuts.append(count.cuts)
            exact += count.exact
        digits = len(str(statistics.median_low(orders))) - 1
        table.add(
            kind, f"{exact} of {seeds}", f"1e{digits}", statistics.median(cuts),
            1000 * statistics.median(seconds), 1000 * max(seconds),
        )  # fmt: skip
    return table


def main(
    console: Console,
    events: int = EVENTS,
    seeds: int = SEEDS,
    classes: tuple[str, ...] = CLASSES,
    count_events: int = COUNT_EVENTS,
) -> list[Table]:
    """Measure and publish."""
    with console.status("kernels are being loaded"):
        for kind in CLASSES:
            freedom_of(region(kind, cores=4, events=60), LIMITS)
            count_orders(region(kind, cores=2, events=40), LIMITS)
    tables = [
        pairs_table(events, CORES, seeds, classes),
        count_table(count_events, COUNT_CORES, seeds, classes),
    ]
    publish("sure", tables, console)
    return tables
