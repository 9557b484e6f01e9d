"""Every engine that can order a recording does, and all are held against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase, Wording
from corebraid.study.engines import ENGINES, evidence_engine, whole_runs
from corebraid.study.whole_runs import WholeRun
from recorder.files.evidence_names import evidence_log
from recorder.files.reader import Recording, no_evidence
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options
from solver.passes.crosscheck import Contender, CrossCheck, Row, crosscheck


@dataclass(frozen=True)
class CrossChecked:
    """What engines say of a recording. names: of all. found: of those that order. wholes: of those that
    replay."""

    recording: Recording
    names: list[str]
    found: CrossCheck
    wholes: list[WholeRun]

    def wrong(self, wording: Wording | None = None) -> list[str]:
        """What they disagree on. wording: how options are called."""
        told = [f"engine {one.engine}: {why}" for one in self.wholes for why in one.wrong_lines(wording)]
        return self.found.disagreements + told

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
                name: {**sums(rows), "bytes": self.bytes_of(name)}
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
                    "verdict": row.verdict.value,
                    "checked": row.checked,
                    "agrees": row.agrees,
                    "seconds": round(row.seconds, 6),
                    "why": row.why or None,
                }
                for row in self.found.rows
            ],
            "disagreements": self.wrong(wording),
        }


def crosschecked(
    recording: Recording,
    engines: str | Iterable[str] | None,
    region_timeout: float,
    progress: Callable[[int], None],
) -> CrossChecked:
    """See `corebraid.crosscheck`."""
    names = names_of(recording, engines)
    contenders = _contenders(recording, names, region_timeout)
    found = crosscheck(RecordingTraces(recording), contenders, progress)
    return CrossChecked(recording, names, found, whole_runs(recording, names))


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
    """What became of an engine's regions, as JSON."""
    said = [row.agrees for row in rows]
    return {
        "regions": len(rows),
        "decided": sum(row.verdict.value != "undecided" for row in rows),
        "legal": sum(row.verdict.value == "legal" for row in rows),
        "checked": sum(row.checked for row in rows),
        "identical": said.count("identical"),
        "equivalent": said.count("equivalent"),
        "differs": said.count("differs"),
        "seconds": round(sum(row.seconds for row in rows), 6),
    }
