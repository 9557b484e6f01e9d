"""`corebraid order`: find a legal order of every region."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.base.wording import said
from corebraid.cli import console
from corebraid.cli.options import (
    Whole,
    budget_option,
    constraints_option,
    json_option,
    recording_argument,
    region_timeout_option,
)
from corebraid.cli.wording import TYPED
from corebraid.study.engines import ENGINES, engines_said, ordering_engines
from recorder.files.constraints import LOSSES, TENURES, VALUES

if TYPE_CHECKING:
    from corebraid.study.freedom.counting import Counted
    from corebraid.study.orders import Ordering
    from solver.freedom.count import Count
    from solver.passes.results import RegionResult

_MOST_ROWS, _MOST_NAMED = 40, 10


@click.command()
@recording_argument
@click.option(
    "--engine",
    type=click.Choice([row.name for row in ordering_engines()]),
    default="auto",
    show_default=True,
    help=said(engines_said(), TYPED),
)
@click.option(
    "--model",
    type=click.Choice(["sc", "tso"]),
    help="Memory model of the order.  [default: that of the recording]",
)
@click.option(
    "--encoding",
    type=click.Choice(["paper", "chain"]),
    default="chain",
    show_default=True,
    help="The SMT engine's formulas: as in the paper, or the faster chain encoding.",
)
@region_timeout_option("Longest time for one region; then it stays undecided.")
@constraints_option
@click.option("--count", is_flag=True, help="Also count every region's legal orders.")
@budget_option(
    "--count-budget",
    "Most cuts to explore in a region for --count and --choose; beyond, the count is 'more than N'.",
)
@click.option(
    "--choose",
    metavar="WHAT",
    help="Which legal order: fewest-switches, earliest:EVENT, latest:EVENT or before:EVENT,EVENT.",
)
@click.option(
    "--jobs",
    type=Whole(1, 1024),
    metavar="N",
    help="Processes to use.  [default: one for each processor; one for a short recording]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Solve the regions on the dask.distributed cluster whose scheduler is at ADDRESS (tcp://HOST:PORT).",
)
@click.option("--fresh", is_flag=True, help="Use nothing that an earlier run has solved or replayed.")
@json_option
def command(recording: Path, as_json: bool, **asked: Any) -> int:
    """Work out in which order the accesses of REC can have happened; writes REC/order.cert.

    Every region between two strata is ordered by itself, and the whole order is checked by an independent
    checker before it is kept. What comes out is a legal order, not necessarily the one that ran.

    Events: those that are local to one stream, read-only in their region, or repeats of an identical read
    need no ordering; 'unfiltered' are the rest, which the engine orders.

    When it is interrupted, or regions stay undecided, the regions that were solved are kept in
    REC/order.partial, and the next run goes on from there. Of a long recording, what was replayed from one
    checkpoint to another is kept in REC/order.rows until the order is there.

    --count says how many orders of the unfiltered events are legal; orders that differ only in where the
    others stand are one. --choose picks one: with as few changes of core as can be, or with an EVENT as
    early or as late among the unfiltered events of its region as can be, or one EVENT before another.
    An EVENT is CORE:COUNT, core ('dev' for devices) and instruction count as 'corebraid trace' shows them;
    CORE:COUNT.N is the access number N, from 0, of that instruction.

    A recording of model tso is ordered under TSO: a core's loads, and its stores as they leave its store
    buffer. One of model sc has an order under sc, which is one under tso too.

    Beside the values, the miss records count: between two accesses of a core to a line without a miss in
    between nobody else wrote to it; under TSO, no other's store committed. --constraints values leaves that
    out, as the paper does.

    Of a region without a legal order, the fewest events are shown that cannot be ordered together, others
    counting as mere stores.

    Exit code 0 also when some regions stay undecided: not decided in time, or, with an engine with evidence,
    where that ends, is missing or does not fit the accesses (a warning names them); 1 when a region has no
    legal order. Such an engine leaves an order.cert as it is that orders every region, unless it does so too.

    \b
    Examples:
      corebraid order REC
      corebraid order REC --engine smt --encoding paper --region-timeout 300
      corebraid order REC --count
      corebraid order REC --choose fewest-switches
      corebraid order REC --choose earliest:2:20375
      corebraid order REC --jobs 8
      corebraid order REC --cluster tcp://10.0.0.1:8786
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.order import OrderProgress, order
    from corebraid.cli.order_progress import Replayed

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    shown = Replayed(opened)
    progress = OrderProgress(
        shown.replayed,
        shown.ordered,
        lambda: console.progress_of(shown.works, shown.done),
        lambda: console.progress("regions counted"),
        _ignore if as_json else _show,
    )
    found = order(opened, progress=progress, note=console.note, **asked)
    if as_json:
        console.facts(found.facts())
    return _exit_code(found)


#: In words, what an order obeys.
_OBEYED = {
    VALUES: "values alone",
    TENURES: "values and tenures",
    LOSSES: "values, tenures and losses",
}


def _ignore(_: Ordering) -> None:
    pass


def _show(found: Ordering) -> None:
    """Show what is new."""
    if found.explanations is not None:
        click.echo("\n".join(said(line, TYPED) for one in found.explanations for line in one.lines))
    elif found.counted is not None:
        _show_counts(found.counted)
    else:
        _show_regions(found)


def _show_regions(found: Ordering) -> None:
    from corebraid.study.orders import DISCLAIMER

    names = ("total", "uncached", "local", "read_only", "collapsed", "unfiltered")
    head = "".join(f"{name.replace('_', '-'):>11}" for name in names)
    click.echo(f"{'region':>7} {'verdict':<9} {'engine':<7}{head}{'seconds':>10}")
    for region in found.regions[:_MOST_ROWS]:
        counts = "".join(f"{getattr(region.counts, name):>11,}" for name in names)
        click.echo(
            f"{region.region:>7} {region.verdict.value:<9} {region.engine or '-':<7}{counts}"
            f"{region.seconds:>10.3f}{'  ' + region.reason if region.reason else ''}"
        )
    if len(found.regions) > _MOST_ROWS:
        click.echo(f"{'...':>7} {len(found.regions) - _MOST_ROWS} more regions (--json has all)")
    counts = "".join(f"{getattr(found.counts, name):>11,}" for name in names)
    click.echo(f"{'all':>7} {found.verdict.value:<9} {'':<7}{counts}{found.seconds:>10.3f}")
    if found.with_verdict("legal"):
        written = "" if found.kept else f"; {found.certificate}: {DISCLAIMER}"
        click.echo(f"{found.check.events:,} events checked{written}")
        click.echo(f"constraints: {_OBEYED[found.constraints]}{_left_out(found.regions)}")


def _left_out(regions: Sequence[RegionResult]) -> str:
    """Which regions obey less."""
    from solver.regions import problem

    parts = list[str]()
    for dropped, obeyed in ((problem.LOSSES, TENURES), (problem.TENURES, VALUES)):
        numbers = [str(one.region) for one in regions if one.reason.startswith(problem.DROPPED[dropped])]
        more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
        if numbers:
            parts.append(f"; of region {', '.join(numbers[:_MOST_NAMED])}{more}: {_OBEYED[obeyed]}")
    return "".join(parts)


def _remedy(undecided: list[RegionResult]) -> str:
    """What may help; more time does not where an engine's evidence ends."""
    from_evidence = {row.name for row in ENGINES.values() if row.stream}
    if all(region.engine in from_evidence and region.reason != "timeout" for region in undecided):
        return "try another --engine"
    return "try a longer --region-timeout, or record with smaller --strata"


def _exit_code(found: Ordering) -> int:
    undecided = found.with_verdict("undecided")
    if undecided:
        named = ", ".join(f"{region.region} ({region.reason})" for region in undecided[:10])
        more = f" and {len(undecided) - 10} more" if len(undecided) > 10 else ""
        console.note(
            f"undecided regions: {named}{more}; they have no order, the others do; {_remedy(undecided)}"
        )
    if found.kept:
        console.note(f"{found.certificate} orders every region, and is left as it was")
    illegal = found.with_verdict("illegal")
    if illegal:
        named = ", ".join(str(region.region) for region in illegal[:10])
        console.note(f"no legal order: region {named}; the recording is damaged, or its recorder wrong")
        return 1
    return 0


def _show_counts(counted: Counted) -> None:
    """A line for each region, and for all."""
    from solver.freedom.count import shorten

    counts = counted.regions
    for number, count in enumerate(counts[:_MOST_ROWS]):
        click.echo(f"region {number}: {count.words}{_different(count)}")
    if len(counts) > _MOST_ROWS:
        click.echo(f"... {len(counts) - _MOST_ROWS} more regions (--json has all)")
    total = counted.total
    if total.orders:
        text = shorten(total.orders) if total.exact else f"more than {shorten(total.orders - 1)}"
        plural = "" if text == "1" else "s"
        click.echo(f"all regions together: {text} order{plural}{_different(total)}")


def _different(count: Count) -> str:
    """How many executions that many orders are, where there are several."""
    return f", {count.executions.words}" if count.orders > 1 else ""
