"""`corebraid rpc`: execute a recorded program again under its receipt histories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.cli import console
from corebraid.cli.options import json_option, positive, recording_argument, seed

if TYPE_CHECKING:
    from corebraid.study.evidence.rpc import Again
    from recorder.files.reader import Recording
    from solver.evidence.rpc.equivalence import Difference
    from solver.evidence.rpc.judge import Judgement
    from solver.evidence.rpc.theorem import Theorem


@click.command()
@recording_argument
@click.option(
    "--seed", type=seed, metavar="S", help="Of scheduling and delivery.  [default: another than REC's]"
)
@click.option("--schedule", default="random", show_default=True, metavar="POLICY", help="As for record.")
@click.option("--slice", type=positive, metavar="N", help="As for record.")
@click.option("--cache", metavar="SIZE:WAYS:LINE", help="Another cache, as for record.  [default: REC's]")
@click.option(
    "--latency",
    type=positive,
    metavar="CYCLES",
    help="Mean time that a message is under way.  [default: 1000]",
)
@click.option("--free", is_flag=True, help="Do not control it: show what these conditions alone lead to.")
@click.option(
    "--input",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What the program read as its standard input, if several of its cores did.",
)
@click.option(
    "--output",
    "sink",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where what the program prints goes; it is not shown otherwise.",
)
@json_option
def command(recording: Path, sink: Path | None, as_json: bool, **asked: Any) -> int:
    """Execute all cores of the program recorded in REC once more, on a machine with another schedule and
    timing, and make it the same execution by the receipt histories that `record --evidence rpc` took down.

    An entry point is handed a request only when it is that request's turn, and a test is answered as it was.
    Then the executions are compared: every process must have emitted the same requests, with the same words,
    in the same order. What the recorded ones emitted is taken from the isolated replay of each core.

    Exit code 1: they are not equivalent; the first difference is named. With --free this shows that the same
    conditions lead elsewhere without the control.

    \b
    Examples:
      corebraid example rpc_queens
      corebraid record -o REC --evidence rpc --cores 4 rpc_queens.elf
      corebraid rpc REC --seed 7
      corebraid rpc REC --schedule pct:3 --cache 4k:2:32 --latency 50
      corebraid rpc REC --seed 7 --free
    """
    console.announce_compilation()
    from corebraid.api.evidence import rpc

    again = rpc(recording, show=console.progress, **asked)
    if sink is not None:
        _write(sink, again.judgement.run.printed)
    if as_json:
        console.facts(again.facts())
    else:
        _show(again)
    if (difference := again.judgement.difference) is not None:
        console.note(_line(again.recording, again.judgement, difference))
        return 1
    again.check_served()
    return 0


def _write(sink: Path, data: bytes) -> None:
    from corebraid.cli.newfile import new_file

    with new_file(sink, "--output") as out:
        out.write(data)


def _line(recording: Recording, judgement: Judgement, difference: Difference) -> str:
    run = judgement.run
    text = f"{recording.path}: not equivalent: {difference.what}: expected {difference.expected}, found "
    text += difference.found
    if run.waiting is not None:
        text += "; then nothing could go on: " + "; ".join(run.waiting.lines)
    return text


_IDENTICAL = {True: "identical", False: "not identical", None: "not compared"}


def _show(again: Again) -> None:
    recording, receipts, judgement = again.recording, again.receipts, again.judgement
    conditions = again.conditions
    run, comparison = judgement.run, judgement.comparison
    ending = f"exit code {run.exit_code}" if run.exit_code is not None else f"ended: {run.reason}"
    click.echo(
        f"evidence    {receipts.requests:,} receipts at {len(receipts.histories)} entry points, "
        f"{receipts.results:,} results of tests, {again.evidence_bytes:,} bytes"
    )
    click.echo(
        f"executed    {recording.manifest.n_cores} cores, seed {conditions.seed}, {conditions.schedule}: "
        f"{run.instructions:,} instructions, {ending}"
    )
    click.echo(f"receipts    {comparison.other_histories} of {len(receipts.histories)} histories differ")
    if judgement.difference is None:
        click.echo(
            f"equivalent  {judgement.processes:,} processes, {judgement.requests:,} requests: the same, in "
            "the same order"
        )
        if comparison.cut:
            click.echo(f"            {comparison.cut} of them cut off by an end, the same as far as both go")
    else:
        click.echo(f"different   {judgement.difference.what}")
    for line in _theorem(judgement.theorem):
        click.echo(line)
    click.echo(f"console     {_IDENTICAL[judgement.identical]}")


#: Messages that show who breaks an assumption, so many at most.
_SHOWN = 3


def _theorem(theorem: Theorem) -> list[str]:
    """What the paper's Theorem 8 says of this execution."""
    every = theorem.mapped + theorem.otherwise
    lines = [f"mapping     {theorem.mapped:,} of {every:,} requests served by the process that served them"]
    if theorem.tests_otherwise:
        lines.append(f"            {theorem.tests_otherwise:,} answers to tests are others")
    if theorem.holds:
        return lines
    lines.append(
        f"theorem     {theorem.different:,} messages differ all the same: the program breaks an assumption"
    )
    for one in theorem.breakers[:_SHOWN]:
        lines.append(f"            {one} goes by something that its process was not told")
    return lines
