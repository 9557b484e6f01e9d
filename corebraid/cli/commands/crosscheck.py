"""`corebraid crosscheck`: every engine that can order a recording does, and all are held against each
other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument, region_timeout_option
from corebraid.cli.wording import TYPED

if TYPE_CHECKING:
    from corebraid.study.crosschecks import CrossChecked

_MOST_ROWS = 60


@click.command()
@recording_argument
@click.option(
    "--engines",
    metavar="NAMES",
    help="Which engines, with commas; the first is what the others are compared with.  "
    "[default: auto, and every one that REC has evidence for]",
)
@region_timeout_option("Longest time that an engine may take for one region; then it stays undecided.")
@click.option(
    "--truth",
    is_flag=True,
    help="Also compare every order with the sealed truth: shared reads right, wrong, undetermined.",
)
@json_option
def command(recording: Path, engines: str | None, region_timeout: float, truth: bool, as_json: bool) -> int:
    """Order REC by every engine that can, and compare what they say.

    Every order passes the independent checker. Reads-from maps (which write each access found) are compared:
    identical, or equivalent, which means that an access found another write of the same value. Regions in
    which nothing is left to order are not counted. Engines that replay rather than order (opr, rpc) are
    checked as a whole. Whether an order is nearer to what ran only --truth can tell.

    Exit code 1: engines disagree, the checker refused an order, evidence contradicts the replay, or an order
    is untrue whose evidence tells every order (opr, --truth); each case is named down to the event. How much
    of that order could be judged is said: of a Linux program's kernel the evidence tells nothing.

    \b
    Examples:
      corebraid example uts
      corebraid record -o REC --evidence all --cores 4 uts.elf
      corebraid crosscheck REC
      corebraid crosscheck REC --engines cut,linkage
      corebraid crosscheck REC --truth
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.verify import crosscheck

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    with console.progress("regions cross-checked") as show:
        checked = crosscheck(
            opened, engines=engines, region_timeout=region_timeout, truth=truth, progress=show
        )
    wrong = checked.wrong(TYPED)
    if as_json:
        console.facts(checked.facts(TYPED))
    else:
        _show(checked)
        for line in wrong:
            click.echo(f"disagreement: {line}")
        if not wrong:
            click.echo(_verdict(checked))
    return 1 if wrong else 0


def _verdict(checked: CrossChecked) -> str:
    """What it means that nothing disagrees."""
    if not checked.to_order:
        told = "no region has anything to order: no engine was put to the test"
    elif not checked.compared:
        told = "no order was compared with another"
    else:
        orders = "order was" if checked.compared == 1 else "orders were"
        told = f"{checked.compared:,} {orders} compared with {checked.names[0]}'s"
    idle = [f"{name} decided nothing" for name in checked.idle]
    unjudged = [
        f"of {name} nothing could be judged by the truth"
        for name in checked.unjudged
        if name not in checked.idle
    ]
    return "; ".join([f"no disagreement; {told}", *idle, *unjudged])


def _show_truth(checked: CrossChecked) -> None:
    for name, rows in checked.by_engine().items():
        if not rows:
            continue
        score = checked.scores.get(name)
        if score is None:
            click.echo(f"{'truth':>7} {name:<9} not compared: it has no order of all regions")
            continue
        nearer = checked.nearer(name)
        told = ""
        if name != checked.names[0] and nearer is not None and nearer <= 0 < score.other:
            told = f"; no nearer than {checked.names[0]}"
        click.echo(
            f"{'truth':>7} {name:<9} {score.reads:,} shared reads: {score.same:,} right, "
            f"{score.other:,} wrong ({score.changed:,} of another change), {score.none:,} undetermined{told}"
        )
        if score.within is not None:
            for what, judged in (("reads", score.within.reads), ("writes", score.within.writes)):
                click.echo(f"{what:>7} {name:<9} {judged.line('left out for the kernel')}")


def _show(checked: CrossChecked) -> None:
    from corebraid.study.crosschecks import sums
    from solver.passes.crosscheck import EMPTY

    rows_of_all = [row for row in checked.found.rows if row.agrees != EMPTY]
    click.echo(
        f"{'region':>7} {'engine':<9} {'events':>7} {'verdict':<10} {'checked':<8} {'agrees':<11} "
        f"{'seconds':>9}"
    )
    for row in rows_of_all[:_MOST_ROWS]:
        click.echo(
            f"{row.region:>7} {row.engine:<9} {row.events:>7,} {row.verdict.value:<10} "
            f"{'yes' if row.checked else 'no':<8} "
            f"{row.agrees:<11} {row.seconds:>9.4f}{'  ' + row.why if row.why else ''}"
        )
    if len(rows_of_all) > _MOST_ROWS:
        click.echo(f"{'...':>7} {len(rows_of_all) - _MOST_ROWS:,} more rows (--json has all)")
    if empty := len(checked.found.rows) - len(rows_of_all):
        click.echo(f"{'...':>7} {empty:,} rows of regions with nothing to order (--json has all)")
    for name, rows in checked.by_engine().items():
        if rows:
            said = sums(rows)
            click.echo(
                f"{'all':>7} {name:<9} {said['decided']} of {said['to_order']} decided, {said['checked']} "
                f"checked, {said['identical']} identical, {said['equivalent']} equivalent, "
                f"{said['differs']} different; {said['seconds']:.4f} s; {checked.bytes_of(name):,} bytes"
            )
    if checked.truth:
        _show_truth(checked)
    for one in checked.wholes:
        click.echo(f"{'all':>7} {one.engine:<9} {one.text}; {checked.bytes_of(one.engine):,} bytes")
