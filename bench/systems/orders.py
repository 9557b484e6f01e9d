"""What every system's engine makes of one recording: orders, checked and held against what ran; replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.systems.logs import LIGHTPLAY, MICRO, MICRO_PAPER, OPR_ALL, STRIDE
from corebraid.base.errors import CorebraidError
from corebraid.study.engines import evidence_engine
from corebraid.study.evidence.linkage import replayed
from corebraid.study.evidence.truth import TruthScores
from corebraid.study.whole_runs import opr_run
from recorder.files.constraints import LOSSES, VALUES
from recorder.files.evidence_names import LINKAGE, OPR, SLICES
from recorder.files.reader import Recording
from recorder.replay.core import replay_core
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options
from solver.passes.crosscheck import CONTRADICTS, DIFFERS, Contender, CrossCheck, Row, crosscheck
from solver.regions.problem import Verdict
from solver.score import Score

#: Engines of evidence, by system.
OF_EVIDENCE = {STRIDE: LINKAGE, LIGHTPLAY: SLICES, OPR_ALL: OPR}
BIT_EXACT = "bit-exact"


@dataclass(frozen=True)
class Ordered:
    """What an engine made of a recording. to_order: regions with something to order; of them decided, and
    checked: those whose order passed the independent checker. refused: why its orders were refused, its
    evidence contradicts the replay, or it calls illegal what ran. reasons: of what is undecided, how often.
    score: its order of the whole run against what ran; None if one was refused."""

    to_order: int
    decided: int
    checked: int
    refused: tuple[str, ...] = ()
    reasons: Counter[str] = field(default_factory=Counter)
    score: Score | None = None

    @property
    def cell(self) -> str:
        """Checked orders of all regions, in words where there is something wrong; "-" of nothing."""
        if self.refused:
            return f"REFUSED: {self.refused[0]}"
        if not self.to_order:
            return "-"
        told = f"{self.checked} of {self.to_order}"
        if self.checked == self.to_order:
            return told
        reason = self.reasons.most_common(1)[0][0] if self.reasons else "not said why"
        return f"{told} ({reason})"


def _ordered(engine: str, told: CrossCheck, score: Score | None) -> Ordered:
    rows = [row for row in told.rows if row.engine == engine]
    refused = [f"region {row.region}: {row.why or row.verdict.value}" for row in rows if _is_wrong(row)]
    # Of memory at the end a line says whose order left something else.
    refused += [line for line in told.disagreements if line.startswith(f"engine {engine}:")]
    some = [row for row in rows if row.events or row.agrees == CONTRADICTS]
    undecided = [row for row in some if row.verdict is Verdict.UNDECIDED]
    return Ordered(
        len(some),
        len(some) - len(undecided),
        sum(row.checked for row in some),
        tuple(refused),
        Counter(row.why or "undecided" for row in undecided),
        None if refused else score,
    )


def _is_wrong(row: Row) -> bool:
    unchecked = row.verdict is Verdict.LEGAL and not row.checked
    return unchecked or row.verdict is Verdict.ILLEGAL or row.agrees in (CONTRADICTS, DIFFERS)


def order_by(
    recording: Recording, contenders: dict[str, Options], constraints: str, scores: TruthScores
) -> dict[str, Ordered]:
    """Let engines order a recording. contenders: by name of a system; no two are the same engine."""
    traces = RecordingTraces(recording, constraints=constraints)
    made = []
    for options in contenders.values():
        options.check()
        made.append(Contender(options.engine, options))
    told = crosscheck(traces, made, None, scores.take)
    return {
        system: _ordered(options.engine, told, scores.scores.get(options.engine))
        for system, options in contenders.items()
    }


def order_all(recording: Recording, timeout_s: float, paper_s: float) -> dict[str, Ordered]:
    """By every engine. timeout_s: for a region; paper_s: for one by the paper's formula. Opens the sealed
    truth."""
    scores = TruthScores(recording, RecordingTraces(recording))
    found = order_by(recording, {MICRO: Options("auto", timeout_s)}, LOSSES, scores)
    by_values = {MICRO_PAPER: Options("smt", paper_s, encoding="paper")}
    for system, name in OF_EVIDENCE.items():
        by_values[system] = Options(name, timeout_s, evidence=evidence_engine(recording, name))
    return found | order_by(recording, by_values, VALUES, scores)


def _replay_cores(recording: Recording) -> str:
    results = [replay_core(recording, core) for core in range(recording.manifest.n_cores)]
    short = [k for k, one in enumerate(results) if one.count != recording.manifest.instructions[k]]
    return f"not to the end: cores {short}" if short else BIT_EXACT


def _replay_group(recording: Recording) -> str:
    replayed(recording, None, lambda _: None)
    return BIT_EXACT


def _replay_members(recording: Recording) -> str:
    wrong = opr_run(recording).wrong_lines()
    return wrong[0] if wrong else BIT_EXACT


def replay_all(recording: Recording) -> dict[str, str]:
    """By system that has a replay from its own log: `BIT_EXACT`, or what went wrong."""
    ways: dict[str, Callable[[Recording], str]] = {
        MICRO: _replay_cores, STRIDE: _replay_group, OPR_ALL: _replay_members,
    }  # fmt: skip
    found = {}
    for system, replay in ways.items():
        try:
            found[system] = replay(recording)
        except CorebraidError as error:
            found[system] = error.line()
    return found
