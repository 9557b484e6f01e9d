"""Every engine that can order a recording does, and all are held against each other, and against what ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from corebraid.base.errors import CorebraidError, UsageError
from corebraid.base.wording import Option, Phrase, Wording
from corebraid.study.engines import ENGINES, evidence_engine, whole_runs
from corebraid.study.evidence.truth import TruthScores
from corebraid.study.whole_runs import WholeRun, values_against
from recorder.files.evidence_names import OPR, evidence_log
from recorder.files.reader import Recording, no_evidence
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options
from solver.passes.crosscheck import (
    CONTRADICTS,
    DIFFERS,
    EQUIVALENT,
    IDENTICAL,
    Contender,
    CrossCheck,
    Row,
    crosscheck,
)
from solver.score import Score

_COMPARED = (IDENTICAL, EQUIVALENT, DIFFERS)


@dataclass(frozen=True)
class CrossChecked:
    """What engines say of a recording. names: of all. found: of those that order. wholes: of those that
    replay. truth: whether orders were compared with the sealed truth; scores: those that were, by engine."""

    recording: Recording
    names: list[str]
    found: CrossCheck
    wholes: list[WholeRun]
    truth: bool = False
    scores: dict[str, Score] = field(default_factory=dict)

    def wrong(self, wording: Wording | None = None) -> list[str]:
        """What they disagree on. wording: how options are called."""
        told = [f"engine {one.engine}: {why}" for one in self.wholes for why in one.wrong_lines(wording)]
        return self.found.disagreements + self._untrue() + told

    def _untrue(self) -> list[str]:
        """Engines whose evidence tells every order, and whose order is another one, region by region. Of the
        kernel of a Linux program it tells nothing, and nothing is asked."""
        return [
            f"region {fault.region}, engine {name}: {fault.line()}; its evidence tells the order of all these"
            for name, score in self.scores.items()
            if score.within is not None
            for fault in score.within.faults
        ]

    @property
    def unjudged(self) -> list[str]:
        """Engines whose evidence tells every order, and of whose order nothing could be held against what
        ran."""
        withins = ((name, score.within) for name, score in self.scores.items() if score.within is not None)
        return [name for name, within in withins if not within.reads.judged + within.writes.judged]

    @property
    def to_order(self) -> int:
        """Regions in which something is left to order."""
        return len({row.region for row in self.found.rows if row.events})

    @property
    def compared(self) -> int:
        """Orders of such regions that were compared with the first engine's."""
        return sum(row.events > 0 and row.agrees in _COMPARED for row in self.found.rows)

    @property
    def idle(self) -> list[str]:
        """Engines that had something to order, and ordered nothing."""
        return [
            n for n, rows in self.by_engine().items() if (s := sums(rows))["to_order"] and not s["decided"]
        ]

    def nearer(self, engine: str) -> int | None:
        """How many reads fewer than with the first engine have another source than in the truth; None if one
        of the two was not compared with it, or they did not decide the same reads."""
        first, this = self.scores.get(self.names[0]), self.scores.get(engine)
        if first is None or this is None or first.none != this.none:
            return None
        return first.other - this.other

    def by_engine(self) -> dict[str, list[Row]]:
        """Rows of the engines that order."""
        return {name: [row for row in self.found.rows if row.engine == name] for name in self.names}

    def bytes_of(self, engine: str) -> int:
        """Bytes of what the engine needs besides the cores' logs; of the others those logs."""
        recording = self.recording
        if stream := ENGINES[engine].stream:
            return (recording.path / evidence_log(stream)).stat().st_size
        cores = range(recording.manifest.n_cores)
        return sum(recording.core_log_path(core).stat().st_size for core in cores)

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        return {
            "recording": str(self.recording.path),
            "engines": {
                name: {
                    **sums(rows),
                    "decided_nothing": name in self.idle,
                    "bytes": self.bytes_of(name),
                    **self._truth_of(name),
                }
                for name, rows in self.by_engine().items()
                if rows
            },
            "whole_runs": {
                one.engine: {**one.facts, "bytes": self.bytes_of(one.engine)} for one in self.wholes
            },
            "by_region": [
                {
                    "region": row.region,
                    "engine": row.engine,
                    "events": row.events,
                    "verdict": row.verdict.value,
                    "checked": row.checked,
                    "agrees": row.agrees,
                    "seconds": round(row.seconds, 6),
                    "why": row.why or None,
                }
                for row in self.found.rows
            ],
            "to_order": self.to_order,
            "compared": self.compared,
            "disagreements": self.wrong(wording),
        }

    def _truth_of(self, engine: str) -> dict[str, object]:
        if not self.truth:
            return {}
        score = self.scores.get(engine)
        if score is None:
            return {"against_truth": None}
        reads = {"shared": score.reads, "right": score.same, "wrong": score.other, "undetermined": score.none}
        reads["wrong_change"] = score.changed
        within = None if score.within is None else score.within.facts()
        told = {**reads, "nearer_than_first": self.nearer(engine), "within_regions": within}
        return {"against_truth": told}


def crosschecked(
    recording: Recording,
    engines: str | Iterable[str] | None,
    region_timeout: float,
    progress: Callable[[int], None],
    truth: bool = False,
) -> CrossChecked:
    """See `corebraid.crosscheck`."""
    names = names_of(recording, engines)
    contenders = _contenders(recording, names, region_timeout)
    traces = RecordingTraces(recording)
    scores = TruthScores(recording, traces) if truth else None
    found = crosscheck(traces, contenders, progress, scores.take if scores else None)
    wholes = whole_runs(recording, names)
    return CrossChecked(recording, names, found, wholes, truth, scores.scores if scores else {})


def evidence_against(recording: Recording, traces: RecordingTraces) -> dict[str, list[str | CorebraidError]]:
    """What contradicts the replay in each evidence stream that an engine orders from. Raises FormatError,
    OrderError if the recording itself has no order."""
    wrong: dict[str, list[str | CorebraidError]] = {}
    for row in ENGINES.values():
        if row.stream and row.orders and row.applies(recording):
            found = crosscheck(traces, _contenders(recording, [row.name], 60.0)).disagreements
            wrong[row.stream] = [*found]
            if not found and row.name == OPR:
                wrong[row.stream] = values_against(recording)
    return wrong


def names_of(recording: Recording, asked: str | Iterable[str] | None) -> list[str]:
    """The engines that are asked for, or all that apply. Raises UsageError."""
    if asked is None:
        return ["auto", *(row.name for row in ENGINES.values() if row.stream and row.applies(recording))]
    asked = asked if isinstance(asked, str) else ",".join(asked)
    names = [name.strip() for name in asked.split(",") if name.strip()]
    if not names or len(set(names)) != len(names) or any(name not in ENGINES for name in names):
        raise UsageError(
            "no such engines",
            expected=f"different ones of {', '.join(ENGINES)}",
            found=asked,
            remedy=Phrase("choose other ", Option("engines")),
        )
    for row in map(ENGINES.__getitem__, names):
        if not row.applies(recording):
            raise no_evidence(recording, row.stream)
    return names


def _contenders(recording: Recording, names: list[str], timeout_s: float) -> list[Contender]:
    made = []
    for name in names:
        if ENGINES[name].orders:
            options = Options(name, timeout_s, evidence=evidence_engine(recording, name))
            options.check()
            made.append(Contender(name, options))
    return made


def sums(rows: list[Row]) -> dict[str, object]:
    """What became of an engine's regions, as JSON; all but the first count those with something to order."""
    regions, rows = len(rows), [row for row in rows if row.events or row.agrees == CONTRADICTS]
    said = [row.agrees for row in rows]
    return {
        "regions": regions,
        "to_order": len(rows),
        "decided": sum(row.verdict.value != "undecided" for row in rows),
        "legal": sum(row.verdict.value == "legal" for row in rows),
        "checked": sum(row.checked for row in rows),
        "identical": said.count("identical"),
        "equivalent": said.count("equivalent"),
        "differs": said.count("differs"),
        "contradicts": said.count(CONTRADICTS),
        "seconds": round(sum(row.seconds for row in rows), 6),
    }
