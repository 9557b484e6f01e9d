"""Everything that can be checked of a recording: bytes, replays, its order, the sealed truth."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from corebraid.base.errors import CorebraidError, FormatError, OrderError, ShortageError
from corebraid.base.wording import Call, Phrase, Text, Wording, said
from corebraid.study.certificates import check, ordered_rows, traces_of
from corebraid.study.evidence.truth import slices_that_ran
from corebraid.study.replays.cores import CoreVerdict, replay_cores, replay_in_intervals
from corebraid.study.replays.keeping import received_rows, replay_and_keep_parts, room_for_rows
from corebraid.study.replays.unfinished import Unfinished
from recorder.evidence.integrity import Finding, integrity
from recorder.files.frame import DamageError
from recorder.files.manifest import MANIFEST, ORDER_CERT, checkpoint_log, core_log
from recorder.files.missing_order import missing_edges
from recorder.files.reader import Recording
from recorder.replay.checkpoint_check import check_memory
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.check.checker import CheckReport, check_slices
from solver.score import Score, score_certificate

#: A folder of the recording's, while it is verified.
UNFINISHED = "verify.rows"
_LOG_DAMAGED = "not replayed: its log is damaged"

#: Shows what is at work, and of how much; gives what is called with how much is done.
Show = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Judgement:
    """What was found of an order. legal: None when it was not checked; line: why, or what is wrong."""

    legal: bool | None
    line: Text | CorebraidError
    report: CheckReport | None = None

    def message(self, wording: Wording | None = None) -> str:
        """The line. wording: how options are called."""
        return self.line.line(wording) if isinstance(self.line, CorebraidError) else said(self.line, wording)

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        report = {} if self.report is None else self.report.facts()
        return {**report, "legal": self.legal, "message": self.message(wording)}


@dataclass(frozen=True)
class Unreadable:
    """A recording whose manifest cannot be read: nothing else can be said of it."""

    recording: Path
    error: CorebraidError

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        finding = {"file": MANIFEST, "offset": 0, "what": self.error.line(wording)}
        return {"recording": str(self.recording), "sound": False, "findings": [finding]}


@dataclass(frozen=True)
class Verdict:
    """All findings on one recording."""

    recording: Recording
    findings: list[Finding]
    replays: list[CoreVerdict] = field(default_factory=list)
    certificate: Judgement = field(default_factory=lambda: Judgement(None, "not checked"))
    truth: Judgement = field(default_factory=lambda: Judgement(None, "not checked"))
    score: Score | None = None
    checkpoints: int = 0
    evidence: dict[str, Judgement] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether nothing was found to be wrong."""
        return (
            not self.findings
            and all(replay.result is not None for replay in self.replays)
            and self.certificate.legal is not False
            and self.truth.legal is not False
            and all(judgement.legal is not False for judgement in self.evidence.values())
        )

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        manifest = self.recording.manifest
        return {
            "recording": str(self.recording.path),
            "complete": manifest.complete,
            "sound": self.sound,
            "findings": [finding.facts(wording) for finding in self.findings],
            "checkpoints": self.checkpoints,
            "replays": [replay.facts(wording) for replay in self.replays],
            "certificate": self.certificate.facts(wording),
            "truth": self.truth.facts(wording),
            "evidence": {name: one.facts(wording) for name, one in self.evidence.items()},
            "missing_edges": missing_edges(manifest),
            "score": None if self.score is None else self.score.facts(),
        }


def show_nothing(_: str, __: int | None = None) -> AbstractContextManager[Callable[[int], None]]:
    """A `Show`."""
    return nullcontext(lambda _: None)


def verify_recording(
    recording: Recording, jobs: int, show: Show = show_nothing, unfinished: Unfinished | None = None
) -> Verdict:
    """Check all of a recording that can be opened. jobs: processes that replay. unfinished: where intervals
    that were replayed are kept until all are."""
    n_cores = recording.manifest.n_cores
    with show("checking files", None):
        findings = list(integrity(recording))
    damaged = {finding.file for finding in findings}
    whole = [core for core in range(n_cores) if core_log(core) not in damaged]
    with show("checking checkpoints", None):
        checkpoints, wrong = _check_checkpoints(recording, whole)
    holds, handovers = ordered_rows(recording)
    traces = RecordingTraces(recording, rows=received_rows(recording), holds=holds, handovers=handovers)
    unfinished = unfinished or Unfinished(recording.path / UNFINISHED)
    sound = not findings and not wrong
    with room_for_rows(recording, traces, jobs, unfinished) if sound else nullcontext() as kept:
        with show("cores replayed", n_cores) as advance:
            replays = None
            if kept is not None:
                traces = traces.with_kept(kept)
                with suppress(FormatError):
                    replays = replay_and_keep_parts(
                        recording, traces, kept, jobs, lambda _, cores: advance(cores)
                    )
            if replays is None and wrong:
                replays = replay_cores(recording, whole, jobs, advance)
            elif replays is None:
                replays = replay_in_intervals(recording, whole, jobs, advance, unfinished if sound else None)
        findings += wrong
        skipped = sorted(set(range(n_cores)) - set(whole))
        replays += [CoreVerdict(core, None, skipped=f"core {core}: {_LOG_DAMAGED}") for core in skipped]
        replays = sorted(replays, key=lambda replay: replay.core)
        verdict = Verdict(recording, findings, replays, checkpoints=checkpoints)
        return _with_orders(verdict, show, traces) if verdict.sound else verdict


def _check_checkpoints(recording: Recording, cores: list[int]) -> tuple[int, list[Finding]]:
    """How many checkpoints of these cores have the memory that the logs say, and what is wrong with
    others."""
    checked, findings = 0, list[Finding]()
    for core in cores:
        try:
            checked += check_memory(recording, core)
        except FormatError as error:
            offset = error.offset if isinstance(error, DamageError) else 0
            findings.append(Finding(checkpoint_log(core), offset, error))
    return checked, findings


def _with_orders(verdict: Verdict, show: Show, traces: RecordingTraces) -> Verdict:
    recording = verdict.recording
    with show("checking orders", None):
        certificate = _judge_certificate(recording, traces)
        if recording.manifest.complete:
            truth = _judge(lambda: check_slices(traces, slices_that_ran(recording)))
        else:
            # Its streams end at different moments, so that no order holds all that the logs hold.
            truth = Judgement(None, "not checked: the recording is incomplete")
    score = None
    if certificate.legal and truth.legal:
        with show("scoring the order", None):
            score = _score(recording, traces)
    evidence = dict[str, Judgement]()
    if recording.manifest.evidence and truth.legal is not False:
        with show("checking evidence", None):
            evidence = _judge_evidence(recording, traces)
    return replace(verdict, certificate=certificate, truth=truth, score=score, evidence=evidence)


def _judge_certificate(recording: Recording, traces: RecordingTraces) -> Judgement:
    if not (recording.path / ORDER_CERT).exists():
        return Judgement(None, Phrase("none (", Call("order", str(recording.path)), " makes one)"))
    judgement = _judge(lambda: check(recording, traces))
    if judgement.report and any(reason == "illegal" for _, reason in judgement.report.unchecked):
        return replace(judgement, legal=False, line="it says that a region has no legal order")
    if judgement.report and judgement.report.unchecked and not judgement.report.events:
        return replace(judgement, legal=None, line="none of an event: it leaves its regions undecided")
    return judgement


def _judge(checked: Callable[[], CheckReport]) -> Judgement:
    try:
        report = checked()
    except ShortageError:
        raise
    except CorebraidError as error:
        return Judgement(False, error)
    passed = f", {report.unchecked_events:,} in regions without an order" if report.unchecked_events else ""
    return Judgement(True, f"{report.events:,} events in order{passed}", report)


def _judge_evidence(recording: Recording, traces: RecordingTraces) -> dict[str, Judgement]:
    """Every stream that an engine orders from, held against the replay."""
    from corebraid.study.crosschecks import evidence_against

    try:
        against = evidence_against(recording, traces)
    except OrderError:
        # The recording's own events have no order: that is told of its certificate, and of the truth.
        return {}
    except FormatError as error:
        return {"evidence": Judgement(False, error)}
    fits = "goes with the replay"
    return {name: Judgement(not lines, lines[0] if lines else fits) for name, lines in against.items()}


def _score(recording: Recording, traces: RecordingTraces) -> Score:
    """The order of order.cert against the one that ran; both are legal."""
    certificate = Certificate(recording.path / ORDER_CERT, recording.manifest.id)
    return score_certificate(
        traces_of(recording, certificate, traces), certificate, slices_that_ran(recording)
    )
