"""Why a region has no legal order, as a user can follow it up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corebraid.base.wording import Option, Phrase, Text
from corebraid.names.devices import device_symbols
from corebraid.names.places import Places
from corebraid.names.program import GuestProgram
from corebraid.study.events import RegionEvents, data_name
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.freedom.explain import Explanation, explain
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Problem

#: Regions explained; most events of one that are listed.
_MOST_REGIONS, _MOST_EVENTS = 3, 40


@dataclass(frozen=True)
class Explained:
    """One illegal region. explanation: None if deduction alone does not prove it. lines: what to print."""

    region: int
    explanation: Explanation | None
    events: list[dict[str, object]]
    finals: list[dict[str, object]]
    lines: list[Text]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "region": self.region,
            "found": self.explanation is not None,
            "smallest": self.explanation.smallest if self.explanation else None,
            "events": self.events,
            "finals": self.finals,
        }


def explain_regions(recording: Recording, regions: Iterable[int], timeout_s: float) -> list[Explained]:
    """Explain the first few of `regions`, which have no legal order. timeout_s: for each."""
    wanted = sorted(regions)[:_MOST_REGIONS]
    manifest = recording.manifest
    program = GuestProgram.of(recording.path, manifest, device_symbols())
    found = []
    for region, problem in iter_problems(RecordingTraces(recording)):
        if region.index in wanted:
            events = RegionEvents(region, problem, Places(program, manifest.n_cores), manifest.n_cores)
            found.append(_explained(problem, events, program, timeout_s))
        if region.index == wanted[-1]:
            break
    return found


def _explained(problem: Problem, events: RegionEvents, program: GuestProgram, timeout_s: float) -> Explained:
    explanation = explain(problem, timeout_s=timeout_s)
    if explanation is None:
        line = f"region {problem.region}: the search ruled out every order; no smaller explanation was found"
        return Explained(problem.region, None, [], [], [line])
    operations = explanation.operations.tolist()
    finals: list[dict[str, object]] = [
        {
            "addr": f"{int(problem.address[g]):#x}",
            "symbol": data_name(program, int(problem.address[g])),
            "value": f"{int(problem.final[g]):#x}",
        }
        for g in explanation.finals.tolist()
    ]
    lines: list[Text] = [_head(problem.region, explanation)]
    for op in operations[:_MOST_EVENTS]:
        address = int(events.rows[op]["addr"])
        lines.append(f"  {events.text(op)} {address:#x} {data_name(program, address)}")
    if len(operations) > _MOST_EVENTS:
        left = len(operations) - _MOST_EVENTS
        lines.append(Phrase(f"  ... {left} more (", Option("json", True), " has all)"))
    lines += [f"  the region leaves {f['value']} at {f['addr']} {f['symbol']}" for f in finals]
    return Explained(problem.region, explanation, [events.facts(op) for op in operations], finals, lines)


def _head(region: int, explanation: Explanation) -> str:
    few = "these events cannot be ordered together"
    if len(explanation.operations) == 1 and not len(explanation.finals):
        few = "this event cannot stand anywhere"
    if explanation.smallest:
        return f"region {region}: {few}; the proof needs each of them"
    return f"region {region}: {few}; time ran out before fewer were found"
