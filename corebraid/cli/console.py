"""Facts to stdout, messages to stderr, progress only where somebody looks."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from corebraid.base.wording import Text, said
from corebraid.cli.wording import TYPED
from corebraid.names.left_out import left_out_so_far

if TYPE_CHECKING:
    from recorder.files.manifest import Manifest

Advance = Callable[[int], None]
_SECONDS_BETWEEN_UPDATES = 0.1
#: Findings that are shown.
_MOST_NOTES = 40
_DONE_OF_TOTAL = "{task.completed:,.0f} of {task.total:,.0f}"


#: In the context of a command line (`click.Context.meta`): whether kernels are kept where it has chosen.
OWN_CACHE = "corebraid.own_cache"


def facts(values: Mapping[str, object]) -> None:
    """Print one JSON object, keys in the order given, and at its end what was left out of names, if any."""
    left_out = {"left_out": found} if (found := left_out_so_far()) else {}
    click.echo(json.dumps({**values, **left_out}, indent=2))


def note(line: Text) -> None:
    """Print a message on stderr."""
    # Where stderr is full nobody can be told.
    with suppress(OSError):
        click.echo(f"corebraid: {said(line, TYPED)}", err=True)


def notes(lines: Sequence[Text], where: object) -> None:
    """A note for each of `lines`, the same once, but no more than can be read. where: of what they are
    findings."""
    lines = list({said(line, TYPED): line for line in lines}.values())
    for line in lines[:_MOST_NOTES]:
        note(line)
    if len(lines) > _MOST_NOTES:
        note(f"{where}: {len(lines) - _MOST_NOTES} more findings like these; --json has them all")


def announce_compilation() -> None:
    """Have it said on stderr, once, that kernels are being compiled, as soon as any is, here or in a process
    that is forked from this one.

    Call before other threads or processes are started. Says nothing when somebody else chose Numba's cache
    directory.
    """
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(OWN_CACHE):
        return
    from corebraid.base.compilation import tell_compilation

    name = context.info_name or ""
    said = f"compiling the kernels of '{name}' (once after installation; some minutes; what is done is kept)"
    tell_compilation(lambda: note(said))


def note_missing_order(manifest: Manifest) -> None:
    """Say on stderr what orders of a recording of an earlier version do not know."""
    from recorder.files.missing_order import missing_line

    if line := missing_line(manifest):
        note(line)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show how far `what` has come, in units of work done; `total` when it is known.

    Gives a function to call with the work done so far. Shows nothing unless stderr is a terminal.
    """
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield _throttled(lambda done: bar.update(task, completed=done))


@contextmanager
def progress_of_search() -> Iterator[tuple[Advance, Advance]]:
    """Show how far a search is whose end nobody knows. Gives a function to call with what was made so far,
    and one with how many branches are open. Shows nothing unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield _ignore, _ignore
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} executions, {task.fields[left]:,.0f} branches open"),
    )  # fmt: skip
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, left=0)
        yield (
            _throttled(lambda done: bar.update(task, completed=done)),
            _throttled(lambda left: bar.update(task, left=left)),
        )


@contextmanager
def progress_of(works: Sequence[tuple[str, int]], look: Callable[[], Sequence[int]]) -> Iterator[None]:
    """Show how far several works have come, of how much each, and how long each may yet take.

    works: (what, how much there is to do). look: how much of each is done; asked now and then by a thread of
    its own, and once more at the end. Shows nothing, and asks nobody, unless stderr is a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(_DONE_OF_TOTAL), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn())
    over = threading.Event()
    with Progress(*columns, *left, console=Console(stderr=True), transient=True) as bar:
        tasks = [bar.add_task(what, total=total) for what, total in works]

        def update() -> None:
            for task, done in zip(tasks, look(), strict=True):
                bar.update(task, completed=done)

        def go_on() -> None:
            while not over.wait(_SECONDS_BETWEEN_UPDATES):
                update()

        thread = threading.Thread(target=go_on, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            update()


def _ignore(_: int) -> None:
    pass


def _throttled(show: Callable[[int], Any]) -> Advance:
    shown = 0.0

    def advance(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _SECONDS_BETWEEN_UPDATES:
            shown = now
            show(done)

    return advance
