"""`corebraid who-wrote`: who wrote some bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from corebraid.cli import console
from corebraid.cli.options import (
    constraints_option,
    count,
    json_option,
    recording_argument,
    region_timeout_option,
)


@click.command()
@recording_argument
@click.argument("place", metavar="PLACE[:BYTES]")
@click.option(
    "--at",
    metavar="EVENT",
    help="As they were right before this event.  [default: where the thread, or core, ended that a signal or "
    "a fault killed; else the end of the run]",
)
@click.option(
    "--chain",
    type=count,
    default="0",
    metavar="N",
    help="Also N steps back through what the written value was computed from.",
)
@click.option("--only-order", is_flag=True, help="Only who it is in this order, not who else it could be.")
@click.option("--no-stacks", is_flag=True, help="No call stacks.")
@region_timeout_option("Longest time for the possible writers of one region.")
@constraints_option
@json_option
def command(recording: Path, place: str, as_json: bool, **asked: Any) -> None:
    """Say who wrote the bytes at PLACE of REC that were there at a moment.

    The first writer of each byte is the last one before the moment in the order of order.cert. It is
    'certain' if every legal order says so; if not, the others that are possible follow, all of them ('these,
    and no others'). A read-modify-write that changed nothing is no write.

    PLACE is an address or any name that 'corebraid trace' prints: pool+0x18, accounts[3].balance,
    libc.so.6!environ; a name alone is all its bytes, an address or NAME+OFFSET one byte. An EVENT is
    CORE:COUNT, as the columns core and count of 'corebraid trace' show it.

    --chain follows registers back from the store to the loads whose values went into it, then asks who wrote
    what these read (docs/who-wrote.md).

    \b
    Examples:
      corebraid who-wrote REC idle_cores
      corebraid who-wrote REC stealStack:4 --at 3:72179 --only-order
      corebraid who-wrote REC 0x102080:8 --chain 3
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.writes import who_wrote

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    with console.progress("accesses") as show:
        found = who_wrote(opened, place, progress=show, **asked)
    if any(part.exact is False and not part.reason for part in found.parts):
        console.note("not settled: try a larger --region-timeout")
    if as_json:
        console.facts(found.facts())
        return
    for line in found.lines():
        click.echo(line)
