"""What was tried and what failed: one table, one line for each failure, or JSON."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field

#: Most failures that are printed in full; all are counted.
_MOST_SHOWN = 200


@dataclass
class Tally:
    """kind, seed: of the campaign, by which each case can be made again. alone: cases that failed behind
    others and not in a process of their own."""

    kind: str
    seed: int
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: list[dict[str, object]] = field(default_factory=list)
    alone: list[dict[str, object]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    slowest: tuple[float, int] = (0.0, -1)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        number: int,
        what: str,
        command: str,
        outcome: str,
        fault: str,
        note: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Count a case. what: its kind; outcome: how it ended; fault: what is wrong with that, or ''."""
        self.counts[what, command, "FAILED" if fault else outcome] += 1
        self.seconds[command] += seconds  # type: ignore[assignment]
        self.slowest = max(self.slowest, (seconds, number))
        if fault:
            self.failures.append(
                {
                    "case": number,
                    "what": what,
                    "command": command,
                    "fault": fault,
                    "note": note,
                    "again": self.again(number),
                }
            )

    def passed_alone(self, number: int, fault: str, note: str) -> None:
        """A case failed behind others and not in a process of its own. fault: how it failed."""
        self.alone.append({"case": number, "fault": fault, "note": note, "again": self.again(number)})

    def again(self, number: int) -> str:
        """The command that makes a case again."""
        return f"python -m bench.hostile {self.kind} --seed {self.seed} --only {number}"

    @property
    def cases(self) -> int:
        """How many were tried."""
        return sum(self.counts.values())

    def lines(self) -> list[str]:
        """The table, then the failures."""
        outcomes = sorted({outcome for _, _, outcome in self.counts})
        rows = sorted({(what, command) for what, command, _ in self.counts})
        wide = max([len(what) for what, _ in rows] + [8])
        head = f"{'kind':{wide}} {'command':16}" + "".join(f"{outcome:>16}" for outcome in outcomes)
        table = [head]
        for what, command in rows:
            cells = "".join(f"{self.counts[what, command, outcome] or '':>16}" for outcome in outcomes)
            table.append(f"{what:{wide}} {command:16}{cells}")
        sums = Counter[str]()
        for (_, _, outcome), n in self.counts.items():
            sums[outcome] += n
        table.append(f"{'all':{wide}} {'':16}" + "".join(f"{sums[outcome]:>16,}" for outcome in outcomes))
        seconds = time.monotonic() - self.began
        slow, number = self.slowest
        end = f"{self.kind}: {self.cases:,} cases, {len(self.failures)} failures, {seconds:.0f} s"
        return [*table, *self.failed_lines(), f"{end} (the slowest, {number}, took {slow:.1f} s)"]

    def failed_lines(self) -> list[str]:
        """A line for each failure, and for each case that failed only behind others."""
        shown = [
            f"FAILED {one['again']}  # {one['command']}: {one['fault']} [{one['what']}: {one['note']}]"
            for one in self.failures[:_MOST_SHOWN]
        ]
        more = len(self.failures) - len(shown)
        alone = [
            f"NOT ALONE {one['again']}: behind others of its process {one['fault']} [{one['note']}]"
            for one in self.alone[:_MOST_SHOWN]
        ]
        return [*shown, *([f"and {more} more"] if more else []), *alone]

    def facts(self) -> str:
        """All of it as JSON."""
        rows = [
            {"what": what, "command": command, "outcome": outcome, "cases": n}
            for (what, command, outcome), n in sorted(self.counts.items())
        ]
        seconds = round(time.monotonic() - self.began, 1)
        return json.dumps(
            {
                "kind": self.kind,
                "seed": self.seed,
                "cases": self.cases,
                "seconds": seconds,
                "counts": rows,
                "failures": self.failures,
                "not_alone": self.alone,
            },
            indent=2,
        )
