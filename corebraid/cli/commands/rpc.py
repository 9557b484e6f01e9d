"""`corebraid rpc`: execute a recorded program again under its receipt histories."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import count, json_option, positive, recording_argument

if TYPE_CHECKING:
    from recorder.evidence.rpc.receipts import Receipts
    from recorder.files.reader import Recording
    from recorder.replay.mail_trace import RecordedMail
    from solver.evidence.rpc.equivalence import Difference
    from solver.evidence.rpc.judge import Judgement
    from solver.evidence.rpc.replay import Conditions


@click.command()
@recording_argument
@click.option(
    "--seed", type=count, metavar="S", help="Of scheduling and delivery.  [default: another than REC's]"
)
@click.option("--schedule", default="random", show_default=True, metavar="POLICY", help="As for record.")
@click.option("--slice", "longest_slice", type=positive, metavar="N", help="As for record.")
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
    "source",
    metavar="FILE",
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
def command(
    recording: Path,
    seed: int | None,
    schedule: str,
    longest_slice: int | None,
    cache: str | None,
    latency: int | None,
    free: bool,
    source: str | None,
    sink: Path | None,
    as_json: bool,
) -> int:
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
    from recorder.evidence.rpc.receipts import read_receipts
    from recorder.files.reader import Recording

    opened = Recording.open(recording)
    receipts = read_receipts(opened)
    if receipts.empty:
        raise UsageError(
            "the program received no request and tested none: it uses no remote procedure calls",
            where=str(recording),
            remedy="nothing to execute again; corebraid replay repeats its cores",
        )
    mail = _recorded(opened)
    conditions = _conditions(opened, mail, seed, schedule, longest_slice, cache, latency, source)
    judgement = _judge(opened, mail, None if free else receipts, conditions)
    if sink is not None:
        _write(sink, judgement.run.printed)
    difference = judgement.difference
    if as_json:
        console.facts(_facts(opened, receipts, conditions, judgement, free))
    else:
        _show(opened, receipts, conditions, judgement)
    if difference is not None:
        console.note(_line(opened, judgement, difference))
        return 1
    _raise_unserved(opened, judgement)
    return 0


def _recorded(recording: Recording) -> RecordedMail:
    from recorder.replay.mail_trace import recorded_mail

    total = sum(recording.manifest.instructions) or None
    with console.progress("replaying cores", total) as show:
        return recorded_mail(recording, lambda _, done: show(done))


def _judge(
    recording: Recording, mail: RecordedMail, receipts: Receipts | None, conditions: Conditions
) -> Judgement:
    from solver.evidence.rpc.judge import judge

    total = sum(recording.manifest.instructions) or None
    with console.progress("executing again", total) as show:
        return judge(recording, mail, receipts, conditions, show)


def _conditions(
    recording: Recording,
    mail: RecordedMail,
    seed: int | None,
    schedule: str,
    longest_slice: int | None,
    cache: str | None,
    latency: int | None,
    source: str | None,
) -> Conditions:
    from emu.bus.cache import CacheGeometry
    from emu.devices.post import DEFAULT_MAIL_LATENCY
    from emu.schedule.scheduler import DEFAULT_SLICE
    from solver.evidence.rpc.replay import Conditions

    return Conditions(
        seed=(recording.manifest.seed + 1) % (1 << 64) if seed is None else seed,
        schedule=schedule,
        longest_slice=longest_slice or DEFAULT_SLICE,
        cache=CacheGeometry.parse(cache) if cache else None,
        latency=latency or DEFAULT_MAIL_LATENCY,
        input=_input(recording, mail, source),
    )


def _input(recording: Recording, mail: RecordedMail, source: str | None) -> bytes:
    """What the program is to read: from its cores' logs, where only one core read any."""
    if source is not None:
        try:
            data = Path(source).read_bytes()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"the input cannot be read ({error})", where=source, remedy="check --input"
            ) from None
        if hashlib.sha256(data).hexdigest() != recording.manifest.options.get("input"):
            raise UsageError("not the input that the recording was made with", where=source)
        return data
    from corebraid.study.rpc_runs import input_of

    return input_of(recording, mail)


def _raise_unserved(recording: Recording, judgement: Judgement) -> None:
    if judgement.unserved:
        raise UsageError(
            "; ".join(judgement.unserved),
            where=str(recording.path),
            remedy="the recorded execution stood still there too: serve that entry point, or do not call it",
        )


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


def _show(recording: Recording, receipts: Receipts, conditions: Conditions, judgement: Judgement) -> None:
    run, comparison = judgement.run, judgement.comparison
    ending = f"exit code {run.exit_code}" if run.exit_code is not None else f"ended by {run.reason}"
    click.echo(
        f"evidence    {receipts.requests:,} receipts at {len(receipts.histories)} entry points, "
        f"{receipts.results:,} results of tests, {_evidence_bytes(recording):,} bytes"
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
    click.echo(f"console     {_IDENTICAL[judgement.identical]}")


_IDENTICAL = {True: "identical", False: "not identical", None: "not compared"}


def _evidence_bytes(recording: Recording) -> int:
    from recorder.files.evidence_names import RPC, evidence_log

    facts = recording.manifest.files.get(evidence_log(RPC))
    return facts.bytes if facts else 0


def _facts(
    recording: Recording,
    receipts: Receipts,
    conditions: Conditions,
    judgement: Judgement,
    free: bool,
) -> dict[str, object]:
    run, difference = judgement.run, judgement.difference
    return {
        "recording": str(recording.path),
        "evidence": {
            "receipts": receipts.requests,
            "entry_points": len(receipts.histories),
            "tests": receipts.results,
            "bytes": _evidence_bytes(recording),
        },
        "controlled": not free,
        "seed": conditions.seed,
        "schedule": conditions.schedule,
        "latency": conditions.latency,
        "instructions": run.instructions,
        "end": run.reason,
        "exit_code": run.exit_code,
        "equivalent": difference is None,
        "processes": judgement.processes,
        "requests": judgement.requests,
        "cut": judgement.comparison.cut,
        "other_histories": judgement.comparison.other_histories,
        "console_identical": judgement.identical,
        "difference": _difference_facts(difference) if difference else None,
        "waiting": list(run.waiting.lines) if run.waiting else [],
    }


def _difference_facts(difference: Difference) -> dict[str, object]:
    """Identifiers as the paper writes them: numbers above 2**53 are not safe in JSON."""
    from recorder.evidence.rpc.receipts import describe_request

    request = difference.request
    return {**asdict(difference), "request": None if request is None else describe_request(request)}
