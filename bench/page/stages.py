"""A program through all stages, each a command of its own."""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.logsize import log_bytes
from bench.page.cost import Cost, cost_of
from bench.page.subjects import Subject
from recorder.files.evidence_names import LOSSES, evidence_log
from recorder.files.reader import Recording

OURS = (sys.executable, "-m", "corebraid")
#: By name: what is asked of a recording. `events` is what an order has to look at, taken out of the logs.
STAGES: dict[str, tuple[str, ...]] = {
    "replay": (*OURS, "replay", "REC", "--all", "--jobs", "1"),
    "events": (sys.executable, "-m", "bench.page.events", "REC"),
    "order": (*OURS, "order", "REC", "--fresh", "--jobs", "1"),
    "check": (*OURS, "check-order", "REC"),
    "verify": (*OURS, "verify", "REC", "--jobs", "1"),
}


@dataclass(frozen=True)
class Logs:
    """Bytes of a recording's logs, before they are compressed: data that cores received, where and when
    (fills), other inputs, strata, digests. losses, disk: as they lie on disk."""

    data: int
    fills: int
    other: int
    strata: int
    digests: int
    losses: int
    disk: int


@dataclass
class Measured:
    """What was measured of a subject. costs: by stage, one a round."""

    subject: Subject
    instructions: int = 0
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    logs: Logs | None = None

    def add(self, stage: str, cost: Cost) -> Cost:
        """One more round of a stage."""
        self.costs.setdefault(stage, []).append(cost)
        return cost

    def seconds(self, stage: str) -> float | str | None:
        """Median of processor seconds; why there are none; None if it was not tried."""
        return self._median(stage, lambda cost: cost.cpu)

    def megabytes(self, stage: str) -> float | str | None:
        """Median of the most memory."""
        return self._median(stage, lambda cost: cost.memory / 1e6)

    def _median(self, stage: str, fact: Callable[[Cost], float]) -> float | str | None:
        costs = self.costs.get(stage, [])
        if why := next((cost.why for cost in costs if cost.why), ""):
            return why
        return statistics.median(map(fact, costs)) if costs else None

    def ratio(self, stage: str, over: str) -> float | None:
        """Of processor seconds, within a round; the median."""
        pairs = list(zip(self.costs.get(stage, []), self.costs.get(over, []), strict=False))
        if not pairs or any(one.why or other.why for one, other in pairs):
            return None
        return statistics.median(one.cpu / other.cpu for one, other in pairs)


def logs_of(rec: Path) -> Logs:
    """What a recording's logs consist of."""
    recording = Recording.open(rec)
    parts, losses = log_bytes(recording), rec / evidence_log(LOSSES)
    lost = losses.stat().st_size if losses.exists() else 0
    return Logs(
        parts.data, parts.miss - parts.data, parts.other, parts.strata, parts.digests, lost, parts.disk
    )


def measure(
    measured: Measured, rec: Path, stages: tuple[str, ...] = tuple(STAGES), limit: float = 600.0
) -> None:
    """One round: record into `rec`, anew, and all stages one after the other."""
    shutil.rmtree(rec, ignore_errors=True)
    # As in the other tools' runs, a program has no environment; it decides what a program does.
    if measured.add(
        "record", cost_of([*OURS, "record", "-o", str(rec), *measured.subject.recorded_as], limit)
    ).why:
        return
    for stage in stages:
        command = [str(rec) if word == "REC" else word for word in STAGES[stage]]
        measured.add(stage, cost_of(command, limit))
    if measured.logs is None:
        measured.instructions = sum(Recording.open(rec).manifest.instructions)
        measured.logs = logs_of(rec)
