"""`corebraid verify`: everything that can be checked of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.cli import console
from corebraid.cli.options import Whole, json_option, recording_argument
from corebraid.cli.wording import TYPED

if TYPE_CHECKING:
    from corebraid.study.verifying import Verdict


@click.command()
@recording_argument
@click.option(
    "--jobs",
    type=Whole(1, 1024),
    metavar="N",
    help="Processes that replay.  [default: what is worth it, one for each processor at most]",
)
@click.option("--fresh", is_flag=True, help="Use no replay that an earlier run has finished.")
@json_option
def command(recording: Path, jobs: int | None, fresh: bool, as_json: bool) -> int:
    """Check all of REC: every byte of its files, every core's replay, its order, and the sealed truth.

    The order is that of order.cert, if there is one. The sealed truth is the interleaving that really ran,
    which nothing else opens: it must be one of the legal orders. An order is also held against it: how many
    reads of shared bytes have the source that they had, how many conflicting pairs stand as they ran.
    Evidence that an engine orders from must not contradict the replay; receipts (rpc) are left to
    'corebraid rpc'.

    Of a long recording, what was replayed from one checkpoint to another is kept in REC/verify.rows until all
    is done: when it is killed, the next run goes on from there.

    Exit code 0: nothing is wrong. 1: damage, a divergence, an illegal order or a contradiction, each on a
    line of its own (the first 40).

    \b
    Examples:
      corebraid verify REC
      corebraid verify REC --json
    """
    console.announce_compilation()
    from corebraid.api.verify import verify
    from corebraid.study.verifying import Unreadable

    found = verify(recording, jobs=jobs, fresh=fresh, show=console.progress, note=console.note)
    if not isinstance(found, Unreadable):
        console.note_missing_order(found.recording.manifest)
    if as_json:
        console.facts(found.facts(TYPED))
    if isinstance(found, Unreadable):
        console.note(found.error.line(TYPED))
        return 1
    if not as_json:
        _show(found)
    _complain(found)
    return 0 if found.sound else 1


def _show(verdict: Verdict) -> None:
    recording = verdict.recording
    from recorder.files.manifest import PROGRAM_ELF

    if not verdict.findings:
        program = "the program" if (recording.path / PROGRAM_ELF).exists() else "no copy of the program"
        libraries = " with its libraries" if recording.manifest.linux else ""
        n_files = len(recording.manifest.file_names())
        click.echo(
            f"files        {n_files} streams and {program}{libraries}: every byte is as it was written"
        )
    if verdict.checkpoints and all(replay.result is not None for replay in verdict.replays):
        click.echo(f"checkpoints  {verdict.checkpoints}: memory and registers are those of the cores' logs")
    for replay in verdict.replays:
        if replay.result is not None:
            result = replay.result
            click.echo(
                f"core {result.core:<8}{result.count:,} instructions, {result.digests} digests: bit-exact"
            )
    for name, judgement in (("certificate", verdict.certificate), ("sealed truth", verdict.truth)):
        if judgement.legal is not False:
            legal = "legal, " if judgement.legal else ""
            click.echo(f"{name:<12} {legal}{judgement.message(TYPED)}")
    for name, judgement in verdict.evidence.items():
        if judgement.legal:
            click.echo(f"evidence     {name}: {judgement.message(TYPED)}")
    if verdict.truth.legal:
        click.echo("             the interleaving that ran is one of the legal orders")
    if verdict.score is not None:
        for name, line in zip(("against it", ""), verdict.score.lines(), strict=True):
            click.echo(f"{name:<12} {line}")


def _complain(verdict: Verdict) -> None:
    recording = verdict.recording
    from recorder.files.manifest import ORDER_CERT

    wrong = [finding.message(TYPED) for finding in verdict.findings]
    wrong += [replay.line(TYPED) for replay in verdict.replays if replay.result is None]
    console.notes(wrong, recording.path)
    for name, judgement in ((ORDER_CERT, verdict.certificate), ("the sealed truth", verdict.truth)):
        if judgement.legal is False:
            console.note(f"{recording.path}: {name} is not legal: {judgement.message(TYPED)}")
    for name, judgement in verdict.evidence.items():
        if judgement.legal is False:
            # What cannot be read is not told apart.
            label = name if name == "evidence" else f"evidence {name}"
            console.note(f"{recording.path}: {label}: {judgement.message(TYPED)}")
    if not recording.manifest.complete:
        console.note(f"{recording.path}: incomplete: the recorder was stopped before the guest's end")
