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
@json_option
def command(recording: Path, engines: str | None, region_timeout: float, as_json: bool) -> int:
    """Order REC by every engine that can, and compare what they say.

    Every order passes the independent checker. Reads-from maps (which write each access found) are compared:
    identical, or equivalent, which means that an access found another write of the same value. Engines that
    replay rather than order (opr, rpc) are checked as a whole.

    Exit code 1: engines disagree, or the checker refused an order; each case is named down to the event.

    \b
    Examples:
      corebraid example uts
      corebraid record -o REC --evidence all --cores 4 uts.elf
      corebraid crosscheck REC
      corebraid crosscheck REC --engines cut,linkage
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.verify import crosscheck

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    with console.progress("regions cross-checked") as show:
        checked = crosscheck(opened, engines=engines, region_timeout=region_timeout, progress=show)
    wrong = checked.wrong(TYPED)
    if as_json:
        console.facts(checked.facts(TYPED))
    else:
        _show(checked)
        for line in wrong:
            click.echo(f"disagreement: {line}")
        if not wrong:
            click.echo("no disagreement")
    return 1 if wrong else 0


def _show(checked: CrossChecked) -> None:
    from corebraid.study.crosschecks import sums

    rows_of_all = checked.found.rows
    click.echo(f"{'region':>7} {'engine':<9} {'verdict':<10} {'checked':<8} {'agrees':<11} {'seconds':>9}")
    for row in rows_of_all[:_MOST_ROWS]:
        click.echo(
            f"{row.region:>7} {row.engine:<9} {row.verdict.value:<10} {'yes' if row.checked else 'no':<8} "
            f"{row.agrees:<11} {row.seconds:>9.4f}{'  ' + row.why if row.why else ''}"
        )
    if len(rows_of_all) > _MOST_ROWS:
        click.echo(f"{'...':>7} {len(rows_of_all) - _MOST_ROWS} more rows (--json has all)")
    for name, rows in checked.by_engine().items():
        if rows:
            said = sums(rows)
            click.echo(
                f"{'all':>7} {name:<9} {said['decided']} of {said['regions']} decided, {said['checked']} "
                f"checked, {said['identical']} identical, {said['equivalent']} equivalent, "
                f"{said['differs']} different; {said['seconds']:.4f} s; {checked.bytes_of(name):,} bytes"
            )
    for one in checked.wholes:
        click.echo(f"{'all':>7} {one.engine:<9} {one.text}; {checked.bytes_of(one.engine):,} bytes")
