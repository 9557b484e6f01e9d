"""`corebraid check-order`: the independent checker on a recording's certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import OrderError
from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from corebraid.study.certificates import CheckedOrder


@click.command("check-order")
@recording_argument
@json_option
def command(recording: Path, as_json: bool) -> int:
    """Check that the order in REC/order.cert is legal, with a checker that shares no code with any engine.

    It walks all accesses in that order over the initial memory: each must read what memory holds, every
    core's must be in program order, and the final memory must be the recorded one.

    Exit code 0: legal; regions without an order are passed over, and named. 1: not legal, or the certificate
    is damaged. 2: there is none, or none with an event in order, or the recording cannot be read.

    \b
    Example:
      corebraid check-order REC
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.order import check_order

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    checked = check_order(opened)
    if as_json:
        console.facts(checked.facts())
    elif not checked.illegal:
        left = checked.report.unchecked_events
        passed = f", {left:,} in regions without an order" if left else ""
        click.echo(f"legal: {checked.events:,} events in order" + passed)
    _warn(checked)
    if checked.illegal:
        found = str(checked.illegal[:10])
        raise OrderError("the certificate says that regions have no legal order", found=found)
    return 0


def _warn(checked: CheckedOrder) -> None:
    undecided = checked.undecided
    if undecided:
        shown = ", ".join(str(region) for region in undecided[:10])
        more = f" and {len(undecided) - 10} more" if len(undecided) > 10 else ""
        console.note(f"regions that have no order were passed over: {shown}{more}")
