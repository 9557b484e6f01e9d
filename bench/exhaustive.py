"""`python -m bench exhaustive`: searches through all executions of small programs (docs/exhaustive.md).

Each right program is proved and its broken twin refuted. The executions of some are counted once more by a
search without partial-order reduction, which tries every switch; and of litmus tests the outcomes are told.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from rich.console import Console

from bench.hunt import GUESTS
from bench.report import Column, Table, publish
from corebraid.study.conditions import DEFAULT, Condition
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.search import Budget, Failing, Search, Searched
from corebraid.study.subjects import Asked, subject_of

LITMUS = ("sb", "mp", "lb", "corr", "iriw")
#: Each but one has a broken twin: `bad_` before its name.
RIGHT = (
    "peterson", "dekker", "ticket", "mcs", "philosophers", "aba", "treiber", "queue", "seqlock", "rendezvous",
)  # fmt: skip
_WITHOUT_TWIN = "treiber"
#: Those that are counted once more, and more preemptions than any of their runs has.
_AGAIN, _ANY = ("sb", "mp", "lb", "corr", "ticket"), 1000


class Looked(NamedTuple):
    """What a search came to. codes: exit codes that it saw."""

    found: Searched
    codes: set[int]
    seconds: float


class _Noting(Search):
    """A search that notes exit codes."""

    codes: set[int]

    def _failing(self, made: Made) -> Failing | None:
        end = None if made.run is None else made.run.manifest.end
        if end is not None and end.exit_code is not None:
            self.codes.add(end.exit_code)
        return super()._failing(made)


def look(name: str, preemptions: int | None = None) -> Looked:
    """Search a test of `small_races`."""
    subject = subject_of(
        Asked(str(GUESTS / "small_races"), (name,), cores=5, schedule="chaos", evidence="none")
    )
    texts = ("deadlock",) if name in LITMUS else DEFAULT
    conditions = tuple(map(Condition.parse, texts))
    began = time.monotonic()
    search = _Noting(subject, conditions, preemptions, Budget(), lambda made, left: None)
    search.codes = set()
    found = search.run()
    return Looked(found, search.codes, time.monotonic() - began)


def main(console: Console) -> list[Table]:
    """Search and publish."""
    table = Table(
        "exhaustive",
        "All executions",
        [
            Column("test"), Column("executions", ",d"), Column("without reduction", ",d"),
            Column("runs", ",d"), Column("steps", "d"), Column("seconds", ".1f"), Column("what came of it"),
        ],
        ["Without reduction: the same, counted by a search that tries every switch."],
    )  # fmt: skip
    for name in (*LITMUS, *RIGHT):
        one = look(name)
        again = look(name, _ANY).found.executions if name in _AGAIN else None
        table.add(
            name,
            one.found.executions,
            again,
            one.found.runs,
            one.found.steps,
            one.seconds,
            _came_of(one, name),
        )
        if name in RIGHT and name != _WITHOUT_TWIN:
            bad = look(f"bad_{name}")
            table.add(
                f"bad_{name}", None, None, bad.found.runs, bad.found.steps, bad.seconds, _came_of(bad, name)
            )
    publish("exhaustive", [table], console)
    return [table]


def _came_of(looked: Looked, name: str) -> str:
    if looked.found.failing is not None:
        return f"fails: {looked.found.failing.held}"
    if looked.found.unfinished:
        return looked.found.unfinished
    return f"{len(looked.codes)} outcomes" if name in LITMUS else "all right"
