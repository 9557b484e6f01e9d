"""What Stride's evidence of a recording says, and what inference from it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corebraid.base.errors import Contradiction, UsageError
from corebraid.base.wording import Option, Phrase, said
from corebraid.study.evidence.against import held_against_the_recording
from recorder.evidence.linkage.codec import (
    DOUBLE,
    FOLLOW,
    GUARDED,
    LOOSENED,
    OPENED,
    PREDICT,
    RUNS,
    SHARE,
    SKIPPED,
    Head,
    iter_linkage,
)
from recorder.files.evidence_names import LINKAGE, evidence_log
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.replay.group import ReplayedGroup, replay_alone, replay_together
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Verdict

_NAMES = {
    1: "shares", 2: "orders", 3: "bounds", 4: "values", 5: "fetches", 6: "checks", OPENED: "opened",
    LOOSENED: "loosened",
}  # fmt: skip


@dataclass(frozen=True)
class Linkages:
    """The linkages of a recording. stream, inference: of the evidence, and of what was made of it, as JSON.
    contradictions: regions whose evidence contradicts the replayed cores, and why. undecided: regions without
    an order, and why: the evidence of a killed recorder ends, or linkages go against edges of fork and join
    and no others were found in time."""

    recording: Recording
    stream: dict[str, object]
    inference: dict[str, object]
    contradictions: list[dict[str, object]]
    undecided: list[dict[str, object]]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        facts = {"recording": str(self.recording.path), **self.stream, **self.inference}
        facts["contradictions"], facts["undecided"] = self.contradictions, self.undecided
        accesses = self.recording.manifest.totals.get("accesses")
        if isinstance(accesses, int) and accesses:
            facts["bytes_per_1000_accesses"] = round(1000 * int(str(facts["bytes"])) / accesses, 3)
        return facts


def linkages_of(recording: Recording, progress: Callable[[int], None]) -> Linkages:
    """Infer the exact linkages. progress: called with how many regions are done. Raises UsageError without
    that evidence, FormatError, Divergence."""
    engine = LinkageEngine.of(recording, with_values=True)
    wrong, undecided = _infer(recording, engine, progress)
    return Linkages(recording, _stream(recording), _inference(engine), wrong, undecided)


def _infer(
    recording: Recording, engine: LinkageEngine, progress: Callable[[int], None]
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Run the engine over all regions; what contradicts, and what is undecided, by region."""
    wrong: list[dict[str, object]] = []
    undecided: list[dict[str, object]] = []
    last = 0
    for region, problem in iter_problems(RecordingTraces(recording)):
        last = region.index
        try:
            solution = engine.solve(region, problem)
        except Contradiction as error:
            wrong.append({"region": region.index, "reason": said(error.found)})
            break
        if solution.verdict is not Verdict.LEGAL:
            undecided.append({"region": region.index, "reason": solution.reason})
        progress(region.index + 1)
    if not wrong and (miscounted := engine.miscounted()):
        wrong.append({"region": last, "reason": miscounted})
    return wrong, undecided


def _stream(recording: Recording) -> dict[str, object]:
    rows = dict.fromkeys(_NAMES.values(), 0)
    head: Head | None = None
    protected = {"variables": 0, "accesses": 0, "writes": 0}
    for item in iter_linkage(recording):
        if isinstance(item, Head):
            head = item
        elif item.kind == SKIPPED:
            for name, column in (("accesses", 0), ("writes", 1)):
                protected[name] += int(item.table[:, column].sum())
        else:
            if item.kind == SHARE:
                protected["variables"] += int((item.table[:, 4] > 0).sum())
            if item.kind == LOOSENED:
                protected["variables"] += int((item.table[:, 1] > 0).sum())
            rows[_NAMES[item.kind]] += len(item.table)
    assert head is not None
    names = {PREDICT: "predict", RUNS: "runs", DOUBLE: "double", FOLLOW: "follow"}
    path = recording.path / evidence_log(LINKAGE)
    return {
        "group": head.grouping.group,
        "compressions": [name for bit, name in names.items() if head.compressions & bit],
        "bytes": path.stat().st_size,
        "rows": rows,
        "shared_variables": rows["shares"],
        "protected": protected if head.compressions & GUARDED else None,
    }


def _inference(engine: LinkageEngine) -> dict[str, object]:
    linked = int(engine.compared.sum())
    compared = int((engine.compared * range(1, len(engine.compared) + 1)).sum())
    return {
        "reads": engine.reads,
        "linked": linked,
        "comparisons_per_read": round(compared / linked, 4) if linked else None,
        "reads_by_comparisons": engine.compared.tolist(),
        "values": engine.values,
        "seconds": round(engine.seconds, 6),
    }


@dataclass(frozen=True)
class Replayed:
    """A replay from Stride's evidence, which was bit-exact."""

    recording: Recording
    result: ReplayedGroup

    def facts(self) -> dict[str, object]:
        """As JSON. elsewhere: what neither the program nor the evidence says, and where it was taken from."""
        result, cores = self.result, self.result.cores
        linked = sum(core.linked for core in cores)
        names = ("core", "instructions", "accesses", "checks", "registers", "waits")
        return {
            "recording": str(self.recording.path),
            "replay": "alone" if result.alone else "together",
            "bit_exact": True,
            "cores": [{name: getattr(core, name) for name in names} for core in cores],
            "versions": result.versions,
            "turns": result.turns,
            "linked": linked,
            "comparisons_per_read": round(sum(core.compared for core in cores) / linked, 4)
            if linked
            else None,
            "values": result.values,
            "elsewhere": {
                "first_memory": "initial.img",
                **{name: sum(getattr(core, name) for core in cores) for name in _OF_CORES},
                "agent_accesses": result.agents,
            },
        }


_OF_CORES = ("inputs", "contexts")


def replayed(recording: Recording, core: int | None, progress: Callable[[int], None]) -> Replayed:
    """Replay from the evidence: all cores together, or one alone. progress: called with instructions so far.
    Raises UsageError without evidence for that, FormatError, Contradiction."""
    with held_against_the_recording(LINKAGE):
        if core is not None:
            return Replayed(recording, replay_alone(recording, core, progress))
        return Replayed(recording, replay_together(recording, progress))


def check_asked(*, replay: bool, core: int | None) -> None:
    """Raises UsageError where a core is asked for and no replay."""
    if core is not None and not replay:
        raise UsageError(Phrase(Option("core"), " goes with ", Option("replay")), found=Option("core", core))
