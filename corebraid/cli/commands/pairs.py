"""`corebraid pairs`: which conflicting accesses had to come in this order, and which could have changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.cli import console
from corebraid.cli.options import (
    budget_option,
    constraints_option,
    count,
    positive,
    recording_argument,
    region_timeout_option,
)

if TYPE_CHECKING:
    from corebraid.study.events import RegionEvents
    from corebraid.study.freedom.pair_lists import AllPairs, Pair, RegionPairs, Witness

#: What stands between the two events of a pair.
_SIGNS = {"must": "<", "may": "<>", "undecided": "?"}


@click.command()
@recording_argument
@click.option("--region", type=count, metavar="N", help="Only the region after N strata.")
@click.option(
    "--addr",
    metavar="A:B",
    help="Only pairs over bytes from A up to (not) B: 0x hexadecimal, decimal or symbols, as in 'trace'.",
)
@click.option("--only", multiple=True, type=click.Choice(list(_SIGNS)), help="Only these; may be repeated.")
@click.option("--core", metavar="K", help="Only pairs with an event of this core, of 'dev' or of 'kernel'.")
@click.option("--limit", type=positive, metavar="N", help="Stop after N pairs.")
@click.option("--summary", is_flag=True, help="Only how many there are in each region.")
@click.option(
    "--witness",
    metavar="EVENT,EVENT",
    help="Only these two events: a legal order of their region for each direction that is possible.",
)
@budget_option("--budget", "Most cuts to explore in a region; what is not settled by then is undecided.")
@region_timeout_option("Longest time for one region.")
@constraints_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: pairs, regions, the total.")
def command(recording: Path, witness: str | None, as_json: bool, **asked: Any) -> int:
    """Say of every two conflicting accesses of REC whether their order is certain.

    Two accesses of different cores conflict if they touch the same bytes in the same region and at least
    one of them changes them; a store of the value that is already there counts as a read. 'must' (A < B):
    A comes before B in every legal order. 'may' (A <> B): there are legal orders of both kinds, so nothing
    in the recording says which one ran. 'undecided' (A ? B): not settled within the budget.

    An EVENT is CORE:COUNT, the core ('dev' for devices) and the instruction count that 'corebraid trace'
    shows; CORE:COUNT.N is the access number N, from 0, of that instruction. A repeated identical read of
    one core is one event, named by its first.

    Exit code 0 also when pairs are undecided; 1 when a region has no legal order.

    \b
    Examples:
      corebraid pairs REC --summary
      corebraid pairs REC --only may --addr idle_cores
      corebraid pairs REC --witness 0:15228,2:27098
      corebraid order REC --choose before:2:27098,0:15228
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.pairs import pairs
    from corebraid.api.pairs import witness as find_witness
    from corebraid.study.freedom.pair_lists import AllPairs

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    if witness is not None:
        limits = {name: asked[name] for name in ("budget", "region_timeout", "constraints")}
        return _show_witness(find_witness(opened, witness, **limits), as_json)
    with console.progress("regions") as show:
        for found in pairs(opened, progress=show, **asked):
            if isinstance(found, AllPairs):
                total = found
            else:
                click.echo(json.dumps(found.facts()) if as_json else _line(found))
    return _end(total, asked["limit"], as_json)


def _end(one: AllPairs, limit: int | None, as_json: bool) -> int:
    """Show all regions together; returns the exit code."""
    if one.limited:
        console.note(f"stopped after {limit:,} pairs (--limit)")
    click.echo(json.dumps(one.facts()) if as_json else _total(one))
    if one.counts["must"] and not as_json:
        console.note(_MUST)
    if one.counts["undecided"]:
        console.note("undecided pairs: try a larger --budget or --region-timeout")
    if one.illegal:
        named = ", ".join(map(str, one.illegal[:10]))
        console.note(f"no legal order: region {named}; the recording is damaged")
        return 1
    return 0


_MUST = (
    "'must' says that the order is certain from what was read, not that a lock or a call made it so: the "
    "increments of a counter that races have no 'may' pair"
)


def _line(one: Pair | RegionPairs) -> str:
    from corebraid.study.freedom.pair_lists import Pair

    if isinstance(one, Pair):
        first, second = one.events.text(one.first), one.events.text(one.second)
        return (
            f"{one.region:>6} {one.order:<9} {one.address:#010x} {one.data:<20} {first} "
            f"{_SIGNS[one.order]:<2} {second}".rstrip()
        )
    different = "" if one.executions is None else f"; {one.executions.words}"
    said = f"{one.verdict}, {one.unfiltered:,} events; {_counted(one.counts)}{different}"
    return f"region {one.region}: {said}"


def _total(one: AllPairs) -> str:
    different = "" if one.executions is None else f"; {one.executions.words}"
    return f"all: {_counted(one.counts)}{different}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[name]:,} {name}" for name in _SIGNS)


def _show_witness(found: Witness, as_json: bool) -> int:
    """Print a legal order for each direction of a pair."""
    if as_json:
        console.facts(found.facts())
    else:
        for one in found.directions:
            for line in _lines(found.events, one.first, one.second, one.order, one.decided):
                click.echo(line)
    return int(found.impossible)


def _lines(events: RegionEvents, x: int, y: int, order: list[int] | None, decided: bool) -> Iterator[str]:
    head = f"{events.name(x)} before {events.name(y)}"
    if order is None:
        yield f"{head}: {'in no legal order' if decided else 'undecided within the budget'}"
        return
    yield f"{head}: a legal order of the {len(order):,} unfiltered events of their region"
    for op in order:
        address = int(events.rows[op]["addr"])
        yield f"{'>' if op in (x, y) else ' '} {address:#010x} {events.text(op)}".rstrip()
