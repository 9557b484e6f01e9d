"""`corebraid checkpoint`: places in a recording from which its cores can be replayed."""

from __future__ import annotations

from pathlib import Path

import click

from corebraid.cli import console
from corebraid.cli.options import Whole, json_option, recording_argument


@click.command()
@recording_argument
@click.option(
    "--every",
    default="auto",
    show_default=True,
    metavar="N",
    help="Instructions of a core after which the next stratum is a checkpoint; auto: some 16 million, more "
    "where much memory changes, as 'corebraid record' does.",
)
@click.option(
    "--jobs",
    type=Whole(1, 1024),
    metavar="N",
    help="Cores to replay at a time.  [default: what is worth it, one for each processor at most]",
)
@json_option
def command(recording: Path, every: str, jobs: int | None, as_json: bool) -> None:
    """Make checkpoints of REC: of each core its memory, now and then, in place of those that it has.

    From them 'replay --until', 'trace --from' and whatever else asks of one moment begin; so they take as
    long as it is from the last checkpoint. 'record' makes some by itself. A core's own log is enough for all
    else: checkpoints-K.log can be removed at any time. 'verify' checks them.

    \b
    Examples:
      corebraid checkpoint REC
      corebraid checkpoint REC --every 1000000
    """
    console.announce_compilation()
    from corebraid.api.checkpoint import checkpoint

    with console.progress("cores replayed", None) as show:
        found = checkpoint(recording, every=every, jobs=jobs, progress=show)
    if as_json:
        console.facts(found.facts())
        return
    for made in found.cores:
        click.echo(
            f"core {made.core}: {made.checkpoints} checkpoints, {made.bytes:,} bytes, "
            f"in {made.instructions:,} instructions and {made.strata} strata"
        )
