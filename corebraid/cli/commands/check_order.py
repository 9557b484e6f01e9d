"""`corebraid check-order`: the independent checker on a recording's certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import FormatError, OrderError
from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from recorder.files.reader import Recording
    from solver.check.checker import CheckReport


@click.command("check-order")
@recording_argument
@json_option
def command(recording: Path, as_json: bool) -> int:
    """Check that the order in REC/order.cert is legal, with a checker that shares no code with any engine.

    It walks all accesses in that order over the initial memory: each must read what memory holds, every
    core's must be in program order, and the final memory must be the recorded one.

    Exit code 0: legal. 1: not legal, or the certificate is damaged. 2: there is none, or the recording
    cannot be read.

    \b
    Example:
      corebraid check-order REC
    """
    console.announce_compilation()
    from corebraid.cli.missing_order import missing_edges
    from recorder.files.manifest import ORDER_CERT
    from recorder.files.reader import Recording
    from solver.check.certificate import Certificate

    opened = Recording.open(recording)
    console.note_missing_order(opened.manifest)
    path = opened.path / ORDER_CERT
    if not path.exists():
        raise FormatError(
            "there is no certificate", where=str(path), remedy=f"run 'corebraid order {recording}' first"
        )
    report = check(opened)
    illegal = [region for region, reason in report.unchecked if reason == "illegal"]
    head = Certificate(path, opened.manifest.id).head
    facts = report_facts(report) | {"engine": head.engine, "constraints": head.constraints}
    if as_json:
        missing = missing_edges(opened.manifest)
        console.facts({"recording": str(recording), **facts, "missing_edges": missing})
    elif not illegal:
        click.echo(f"legal: {report.events:,} events in order")
    _warn(report)
    if illegal:
        raise OrderError("the certificate says that regions have no legal order", found=str(illegal[:10]))
    return 0


def check(recording: Recording) -> CheckReport:
    """Check the recording's certificate. Raises OrderError when it is not legal or damaged, FormatError
    when the recording cannot be read."""
    from recorder.files.manifest import ORDER_CERT
    from recorder.replay.traces import RecordingTraces
    from solver.check.certificate import Certificate
    from solver.check.checker import check_certificate

    path = recording.path / ORDER_CERT
    try:
        certificate = Certificate(path, recording.manifest.id)
        for _ in certificate.blocks():
            pass
    except FormatError as error:
        raise OrderError(error.line()) from None
    return check_certificate(RecordingTraces(recording), certificate)


def report_facts(report: CheckReport) -> dict[str, object]:
    """A report as JSON."""
    return {
        "legal": not any(reason == "illegal" for _, reason in report.unchecked),
        "events": report.events,
        "unchecked_events": report.unchecked_events,
        "unchecked_regions": [{"region": region, "reason": reason} for region, reason in report.unchecked],
    }


def _warn(report: CheckReport) -> None:
    undecided = [region for region, reason in report.unchecked if reason != "illegal"]
    if undecided:
        shown = ", ".join(str(region) for region in undecided[:10])
        more = f" and {len(undecided) - 10} more" if len(undecided) > 10 else ""
        console.note(f"regions that have no order were passed over: {shown}{more}")
