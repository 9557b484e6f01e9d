"""`python -m bench exhaustive`: searches through all executions of small programs, Linux's and firmware
(docs/exhaustive.md).

Each right program is proved and its broken twin refuted. The executions of some are counted once more by a
search without partial-order reduction, which tries every switch; and of litmus tests the outcomes are told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console

from bench.cross_campaign import IMAGES
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
#: The same of the firmware image: some have no broken twin, some are broken alone.
CORE_LITMUS = ("sb", "mp", "lb", "corr", "2+2w", "iriw")
CORE_RIGHT = ("peterson", "dekker", "spin", "ticket", "mcs", "barrier", "publish", "print")
_CORES_WITHOUT_TWIN = "print"
_CORES_AGAIN = ("sb", "mp", "lb", "corr", "2+2w", "ticket")
#: Those that are counted once more, and more preemptions than any of their runs has.
_AGAIN, _ANY = ("sb", "mp", "lb", "corr", "ticket"), 1000


class Tests(NamedTuple):
    """litmus: their outcomes are told. right: each but `alone` has a broken twin. again: those that are
    counted once more."""

    litmus: tuple[str, ...]
    right: tuple[str, ...]
    alone: str
    again: tuple[str, ...]


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
    asked = Asked(str(GUESTS / "small_races"), (name,), cores=5, schedule="chaos", evidence="none")
    return _look(asked, ("deadlock",) if name in LITMUS else DEFAULT, preemptions)


def look_at_cores(name: str, preemptions: int | None = None) -> Looked:
    """Search a test of `tiny_races`, the firmware image."""
    asked = Asked(
        str(IMAGES / "tiny_races.elf"), cores=4 if name == "iriw" else 2, schedule="chaos", evidence="none",
        input=name.encode(),
    )  # fmt: skip
    return _look(asked, ("deadlock",) if name in CORE_LITMUS else DEFAULT, preemptions)


def _look(asked: Asked, texts: tuple[str, ...], preemptions: int | None) -> Looked:
    subject = subject_of(asked)
    conditions = tuple(map(Condition.parse, texts))
    began = time.monotonic()
    search = _Noting(subject, conditions, preemptions, Budget(), lambda made, left: None)
    search.codes = set()
    found = search.run()
    return Looked(found, search.codes, time.monotonic() - began)


def main(console: Console) -> list[Table]:
    """Search and publish."""
    tables = [
        _table("exhaustive", "All executions: threads", look, Tests(LITMUS, RIGHT, _WITHOUT_TWIN, _AGAIN)),
        _table(
            "exhaustive_cores",
            "All executions: cores",
            look_at_cores,
            Tests(CORE_LITMUS, CORE_RIGHT, _CORES_WITHOUT_TWIN, _CORES_AGAIN),
        ),
    ]
    publish("exhaustive", tables, console)
    return tables


def _table(
    name: str,
    title: str,
    look_at: Callable[[str, int | None], Looked],
    tests: Tests,
) -> Table:
    table = Table(
        name,
        title,
        [
            Column("test"), Column("executions", ",d"), Column("without reduction", ",d"),
            Column("runs", ",d"), Column("steps", "d"), Column("seconds", ".1f"), Column("what came of it"),
        ],
        ["Without reduction: the same, counted by a search that tries every switch."],
    )  # fmt: skip
    for name in (*tests.litmus, *tests.right):
        one = look_at(name, None)
        again = look_at(name, _ANY).found.executions if name in tests.again else None
        table.add(
            name,
            one.found.executions,
            again,
            one.found.runs,
            one.found.steps,
            one.seconds,
            _came_of(one, is_litmus=name in tests.litmus),
        )
        if name in tests.right and name != tests.alone:
            bad = look_at(f"bad_{name}", None)
            what = _came_of(bad, is_litmus=False)
            table.add(f"bad_{name}", None, None, bad.found.runs, bad.found.steps, bad.seconds, what)
    return table


def _came_of(looked: Looked, *, is_litmus: bool) -> str:
    if looked.found.failing is not None:
        return f"fails: {looked.found.failing.held}"
    if looked.found.unfinished:
        return looked.found.unfinished
    return f"{len(looked.codes)} outcomes" if is_litmus else "all right"
