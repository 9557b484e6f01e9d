"""What a hunt has found, for people and as facts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import CorebraidError
from corebraid.cli import console
from corebraid.study.conditions import how_it_ended
from corebraid.study.deadlocks import deadlock_lines
from recorder.files.manifest import ORDER_CERT

if TYPE_CHECKING:
    from corebraid.study.hunting import Run
    from corebraid.study.suspects import Suspicion


@dataclass(frozen=True)
class Speed:
    """Runs, and the seconds that they took together."""

    runs: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.runs / self.seconds:.1f} runs/s"


@dataclass(frozen=True)
class Finding:
    """The failing run. again: the command that records it once more. suspicions: None where nobody looked."""

    recording: Path
    run: Run
    again: str
    speed: Speed
    suspicions: list[Suspicion] | None

    def lines(self) -> list[str]:
        """For people."""
        tried, manifest = self.run.attempt, self.run.manifest
        assert manifest.end is not None
        lines = [
            f"found in run {tried.number + 1} ({self.speed}): schedule {tried.schedule}, seed {tried.seed}: "
            f"{how_it_ended(manifest.end)} ({self.run.held})",
            *(f"  {line}" for line in deadlock_lines(self.recording, manifest)),
            f"recording: {self.recording}",
            f"once more: {self.again}",
        ]
        if self.suspicions:
            lines.append("suspicious, not proven (a legal order of the accesses; the likeliest first):")
            for number, one in enumerate(self.suspicions, 1):
                head, *more = one.lines()
                lines += [f"  {number}. {head}", *(f"     {line}" for line in more)]
        elif self.suspicions is not None:
            lines.append("no access looks suspicious by itself (docs/hunt.md says what is looked for)")
        return [*lines, "next:", *(f"  {command}" for command in self.commands())]

    def commands(self) -> list[str]:
        """What to look at it with."""
        name = shlex.quote(str(self.recording))
        ended = self.run.manifest.end
        ordered = (self.recording / ORDER_CERT).exists()
        found = [] if ordered else [f"corebraid order {name}"]
        if self.suspicions:
            address = self.suspicions[0].address
            found.append(f"corebraid trace {name} --ordered --addr {address:#x}:{address + 8:#x}")
        else:
            found.append(f"corebraid trace {name} --ordered")
        if ended is not None and ended.core is not None:
            found.append(f"corebraid replay {name} --core {ended.core}")
        return [*found, f"corebraid pairs {name}"]

    def facts(self) -> dict[str, object]:
        """For --json."""
        tried, manifest = self.run.attempt, self.run.manifest
        return {
            "found": True,
            "run": tried.number + 1,
            "runs": self.speed.runs,
            "seconds": round(self.speed.seconds, 3),
            "schedule": tried.schedule,
            "seed": tried.seed,
            "condition": self.run.held,
            "recording": str(self.recording),
            "end": manifest.end.facts() if manifest.end else None,
            "deadlock": deadlock_lines(self.recording, manifest),
            "again": self.again,
            "suspicions": [one.facts() for one in self.suspicions or []],
            "next": self.commands(),
        }


def suspicions_of(recording: Path) -> list[Suspicion] | None:
    """What looks suspicious in the recording; a note and None where that cannot be said."""
    from corebraid.study.suspects import suspicions

    try:
        return suspicions(recording)
    except CorebraidError as error:
        console.note(f"no explanation: {error.line()}")
        return None
