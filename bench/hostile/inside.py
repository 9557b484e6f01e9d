"""Commands of corebraid inside this process, or in one that is forked from it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.hostile.fork_server import run_cases
from bench.hostile.judging import Ended
from bench.hostile.slot import Limits
from corebraid.__main__ import main


def run_command(arguments: list[str]) -> int:
    """Its own entry point; returns the exit code."""
    sys.argv = ["corebraid", *arguments]
    # As in a process that is new: a command leaves it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run_nested(work: Callable[[], int], limits: Limits | None = None) -> Ended:
    """How a process ends in which `work` runs, which may crash, hang or be killed by itself."""
    found: list[Ended] = []
    with tempfile.TemporaryDirectory() as folder:
        run_cases([0], lambda *_: work(), lambda _, how, __: found.append(how), Path(folder), limits=limits)
    return found[0]


def run_nested_command(*arguments: object, limits: Limits | None = None) -> Ended:
    """How a command ends."""
    return run_nested(lambda: run_command([str(one) for one in arguments]), limits)


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is printed, whoever prints it."""
    kept = os.dup(1), os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for file, number in zip(kept, (1, 2), strict=True):
            os.dup2(file, number)
            os.close(file)
        os.close(nothing)
