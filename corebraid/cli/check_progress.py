"""How far `corebraid check` is: what of the file was read, what of the trace in work was done, time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from solver.axe.answers import CheckProgress

if TYPE_CHECKING:
    from rich.progress import Progress

    from solver.axe.trace import Trace

#: Traces of fewer operations are decided before anybody could read their line.
_WORTH_SHOWING = 2_000


class _Bars(CheckProgress):
    """One bar for the file and one for the trace in work. They are gone while an answer is printed."""

    def __init__(self, bars: Progress, size: int | None, *, alone: bool) -> None:
        """alone: answers go elsewhere, not to this terminal."""
        self._bars, self._alone, self._number = bars, alone, 0
        self._file = bars.add_task("read", total=size)
        self._trace = bars.add_task("", visible=False, total=None)
        self._name, self._best, self._stage = "", 0, ""

    def read(self, size: int) -> None:
        self._bars.start()
        self._bars.update(self._file, completed=size)

    def begin(self, trace: Trace) -> None:
        self._number += 1
        self._best, self._stage = 0, ""
        self._name = f"trace {self._number}, {trace.n_ops:,} operations"
        if trace.n_ops >= _WORTH_SHOWING:
            self._bars.reset(self._trace, description=self._name, visible=True)
            self._bars.start()

    def step(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._best, self._stage = 0, stage
            self._bars.reset(self._trace, total=total or None)
        # A walk that is begun anew does not go back on the screen.
        self._best = max(self._best, done)
        said = f"{self._name}: {stage}" + ("" if total or not done else f" {done}")
        self._bars.update(self._trace, description=said, completed=self._best if total else 0)

    def pause(self) -> None:
        self._bars.update(self._trace, visible=False)
        if not self._alone:
            self._bars.stop()


@contextmanager
def check_progress(file: Path) -> Iterator[CheckProgress]:
    """Progress on stderr; nothing unless it is a terminal. file: '-' is standard input, of unknown size."""
    if not sys.stderr.isatty():
        yield CheckProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    size = file.stat().st_size if file.is_file() else None
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    try:
        yield _Bars(bars, size, alone=not sys.stdout.isatty())
    finally:
        bars.stop()
