"""`corebraid verify`: everything that can be checked of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import CorebraidError, FormatError
from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from corebraid.cli.parallel import CoreVerdict
    from recorder.evidence.integrity import Finding
    from recorder.files.reader import Recording
    from solver.check.checker import CheckReport
    from solver.score import Score

_LOG_DAMAGED = "not replayed: its log is damaged"


@dataclass
class Judgement:
    """What verify found of an order. legal: None when it was not checked; line: why, or what is wrong."""

    legal: bool | None
    line: str
    report: CheckReport | None = None


@dataclass
class Verdict:
    """All findings on one recording."""

    findings: list[Finding]
    replays: list[CoreVerdict] = field(default_factory=list)
    certificate: Judgement = field(default_factory=lambda: Judgement(None, "not checked"))
    truth: Judgement = field(default_factory=lambda: Judgement(None, "not checked"))
    score: Score | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing was found to be wrong."""
        return (
            not self.findings
            and all(replay.result is not None for replay in self.replays)
            and self.certificate.legal is not False
            and self.truth.legal is not False
        )


@click.command()
@recording_argument
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Cores to replay at a time.  [default: what is worth it, one for each processor at most]",
)
@json_option
def command(recording: Path, jobs: int | None, as_json: bool) -> int:
    """Check all of REC: every byte of its files, every core's replay, its order, and the sealed truth.

    The order is that of order.cert, if there is one. The sealed truth is the interleaving that really ran,
    which nothing else opens: it must be one of the legal orders. An order is also held against it: how many
    reads of shared bytes have the source that they had, how many conflicting pairs stand as they ran.

    Exit code 0: nothing is wrong. 1: damage, a divergence or an illegal order, each on a line of its own.

    \b
    Examples:
      corebraid verify REC
      corebraid verify REC --json
    """
    console.announce_compilation()
    from corebraid.cli.parallel import worthwhile_processes
    from recorder.files.reader import Recording

    try:
        opened = Recording.open(recording)
    except FormatError as error:
        if not (recording / "manifest.json").is_file():
            raise
        if as_json:
            finding = {"file": "manifest.json", "offset": 0, "what": error.line()}
            console.facts({"recording": str(recording), "sound": False, "findings": [finding]})
        console.note(error.line())
        return 1
    console.note_missing_order(opened.manifest)
    verdict = _verify(opened, jobs or worthwhile_processes(opened))
    if as_json:
        console.facts(_facts(opened, verdict))
    else:
        _show(opened, verdict)
    _complain(opened, verdict)
    return 0 if verdict.sound else 1


def _verify(recording: Recording, jobs: int) -> Verdict:
    from corebraid.cli.parallel import CoreVerdict, replay_cores
    from recorder.evidence.integrity import integrity
    from recorder.files.manifest import core_log

    n_cores = recording.manifest.n_cores
    with console.progress("checking files"):
        verdict = Verdict(integrity(recording))
    damaged = {finding.file for finding in verdict.findings}
    whole = [core for core in range(n_cores) if core_log(core) not in damaged]
    with console.progress("cores replayed", n_cores) as show:
        verdict.replays = replay_cores(recording, whole, jobs, show)
    skipped = sorted(set(range(n_cores)) - set(whole))
    verdict.replays += [CoreVerdict(core, None, f"core {core}: {_LOG_DAMAGED}", 1) for core in skipped]
    verdict.replays.sort(key=lambda replay: replay.core)
    if not verdict.sound:
        return verdict
    with console.progress("checking orders"):
        verdict.certificate = _judge_certificate(recording)
        if recording.manifest.complete:
            verdict.truth = _judge(lambda: _check_truth(recording))
        else:
            # Its streams end at different moments, so that no order holds all that the logs hold.
            verdict.truth = Judgement(None, "not checked: the recording is incomplete")
    if verdict.certificate.legal and verdict.truth.legal:
        with console.progress("scoring the order"):
            verdict.score = _score(recording)
    return verdict


def _judge_certificate(recording: Recording) -> Judgement:
    from corebraid.cli.commands.check_order import check
    from recorder.files.manifest import ORDER_CERT

    if not (recording.path / ORDER_CERT).exists():
        return Judgement(None, f"none (corebraid order {recording.path} makes one)")
    judgement = _judge(lambda: check(recording))
    if judgement.report and any(reason == "illegal" for _, reason in judgement.report.unchecked):
        judgement.legal, judgement.line = False, "it says that a region has no legal order"
    return judgement


def _judge(check: Callable[[], CheckReport]) -> Judgement:
    try:
        report = check()
    except CorebraidError as error:
        return Judgement(False, error.line())
    passed = f", {report.unchecked_events:,} in regions without an order" if report.unchecked_events else ""
    return Judgement(True, f"{report.events:,} events in order{passed}", report)


def _check_truth(recording: Recording) -> CheckReport:
    from recorder.replay.traces import RecordingTraces
    from solver.check.checker import check_slices

    return check_slices(RecordingTraces(recording), _slices(recording))


def _slices(recording: Recording) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    """The sealed truth, as the checker takes it."""
    from recorder.files.reader import iter_sealed_truth

    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype("int64"), rows["end"].astype("uint64")


def _score(recording: Recording) -> Score:
    """The order of order.cert against the one that ran; both are legal."""
    from recorder.files.manifest import ORDER_CERT
    from recorder.replay.traces import RecordingTraces
    from solver.check.certificate import Certificate
    from solver.score import score_certificate

    certificate = Certificate(recording.path / ORDER_CERT, recording.manifest.id)
    return score_certificate(RecordingTraces(recording), certificate, _slices(recording))


def _facts(recording: Recording, verdict: Verdict) -> dict[str, object]:
    from dataclasses import asdict

    from corebraid.cli.commands.replay import verdict_facts
    from corebraid.cli.missing_order import missing_edges

    return {
        "recording": str(recording.path),
        "complete": recording.manifest.complete,
        "sound": verdict.sound,
        "findings": [asdict(finding) for finding in verdict.findings],
        "replays": [verdict_facts(replay) for replay in verdict.replays],
        "certificate": _judgement_facts(verdict.certificate),
        "truth": _judgement_facts(verdict.truth),
        "missing_edges": missing_edges(recording.manifest),
        "score": None if verdict.score is None else verdict.score.facts(),
    }


def _judgement_facts(judgement: Judgement) -> dict[str, object]:
    from corebraid.cli.commands.check_order import report_facts

    if judgement.report is None:
        return {"legal": judgement.legal, "message": judgement.line}
    return {**report_facts(judgement.report), "legal": judgement.legal, "message": judgement.line}


def _show(recording: Recording, verdict: Verdict) -> None:
    from recorder.files.manifest import PROGRAM_ELF

    if not verdict.findings:
        program = "the program" if (recording.path / PROGRAM_ELF).exists() else "no copy of the program"
        libraries = " with its libraries" if recording.manifest.linux else ""
        n_files = len(recording.manifest.file_names())
        click.echo(
            f"files        {n_files} streams and {program}{libraries}: every byte is as it was written"
        )
    for replay in verdict.replays:
        if replay.result is not None:
            result = replay.result
            click.echo(
                f"core {result.core:<8}{result.count:,} instructions, {result.digests} digests: bit-exact"
            )
    for name, judgement in (("certificate", verdict.certificate), ("sealed truth", verdict.truth)):
        if judgement.legal is not False:
            legal = "legal, " if judgement.legal else ""
            click.echo(f"{name:<12} {legal}{judgement.line}")
    if verdict.truth.legal:
        click.echo("             the interleaving that ran is one of the legal orders")
    if verdict.score is not None:
        for name, line in zip(("against it", ""), verdict.score.lines(), strict=True):
            click.echo(f"{name:<12} {line}")


def _complain(recording: Recording, verdict: Verdict) -> None:
    from recorder.files.manifest import ORDER_CERT

    for finding in verdict.findings:
        console.note(finding.what)
    for replay in verdict.replays:
        if replay.result is None:
            console.note(replay.line)
    for name, judgement in ((ORDER_CERT, verdict.certificate), ("the sealed truth", verdict.truth)):
        if judgement.legal is False:
            console.note(f"{recording.path}: {name} is not legal: {judgement.line}")
    if not recording.manifest.complete:
        console.note(f"{recording.path}: incomplete: the recorder was stopped before the guest's end")
