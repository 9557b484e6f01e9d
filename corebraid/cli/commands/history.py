"""`corebraid history`: what became of some bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from corebraid.cli import console
from corebraid.cli.options import positive, recording_argument


@click.command()
@recording_argument
@click.argument("place", metavar="PLACE[:BYTES]")
@click.option("--writes", is_flag=True, help="No reads.")
@click.option("--limit", type=positive, metavar="N", help="Stop after N accesses.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: what there was, then accesses.")
def command(recording: Path, place: str, as_json: bool, **asked: Any) -> None:
    """Print what became of the bytes at PLACE of REC, in the order that 'corebraid order' found.

    First what they held when the recording began; then every write, and every read by a thread, or core, that
    found another value there than it had last found or left. What the kernel and devices do is told too. '?'
    marks what is of a region without an order. In brackets stands the event, CORE:COUNT.

    PLACE is what 'corebraid who-wrote' takes. All accesses: 'corebraid trace REC --ordered --addr PLACE'.

    \b
    Examples:
      corebraid history REC idle_cores
      corebraid history REC stealStack+0x8:8 --writes
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.writes import history

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    accesses = -1
    with console.progress("accesses") as show:
        for one in history(opened, place, progress=show, **asked):
            accesses += 1
            click.echo(json.dumps(one.facts()) if as_json else one.line())
    if not accesses:
        console.note("no access touches these bytes")
