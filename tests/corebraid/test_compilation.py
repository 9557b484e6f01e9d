"""Compiling kernels is told, once, and counts against nobody's time."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from cli_factory import ROOT
from numba import njit
from numba.core.compiler_lock import global_compiler_lock

from corebraid.base import clock
from corebraid.base.clock import working_time
from corebraid.base.compiled.begin import begin
from corebraid.cli.group import _COMMANDS
from solver.passes.pool import News, Pool

#: Commands that load no kernels.
_LIGHT = {"example", "info"}
#: In `telling`, two processes compile, and one of them first.
_TELLING = """\
import os, sys
import click
from corebraid.cli import console
from numba import njit

@njit
def f(x):
    return x + 1

@njit
def g(x):
    return f(x) + 1

with click.Context(click.Command("order"), info_name="order") as context:
    context.meta[console.OWN_CACHE] = {own}
    console.announce_compilation()
    print("not yet", file=sys.stderr)
    g(1)
    child = os.fork()
    f(1.5)
    if child:
        os.waitpid(child, 0)
"""


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def telling(own: bool) -> list[str]:
    program = [sys.executable, "-c", _TELLING.format(own=own)]
    ran = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True)
    return ran.stderr.splitlines()


def test_compilation_is_told_once_when_it_begins() -> None:
    before, said = telling(own=True)
    assert before == "not yet"
    assert said.startswith("corebraid: compiling the kernels of 'order' (once after installation; ")


def test_nothing_is_said_where_somebody_else_keeps_the_kernels() -> None:
    assert telling(own=False) == ["not yet"]


@pytest.mark.parametrize("name", sorted(set(_COMMANDS.values()) - _LIGHT))
def test_every_command_tells(name: str) -> None:
    tree = ast.parse((ROOT / "corebraid" / "cli" / "commands" / f"{name}.py").read_text())
    called = [
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    assert called.count("announce_compilation") == 1


@pytest.fixture(autouse=True)
def _told() -> None:
    """Who waits for Numba is told of it, whoever has imported it here."""
    begin()


def test_the_clock_stands_still_in_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands()
    monkeypatch.setattr(clock, "monotonic", hands)
    until = working_time() + 1
    with global_compiler_lock:
        hands.now += 500
        with global_compiler_lock:
            hands.now += 500
    assert working_time() < until
    hands.now += 1
    assert working_time() >= until


def test_each_thread_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands()
    monkeypatch.setattr(clock, "monotonic", hands)
    before = working_time()

    def compile_long() -> None:
        with global_compiler_lock:
            hands.now += 500

    other = threading.Thread(target=compile_long)
    other.start()
    other.join()
    assert working_time() == before + 500


def test_compiling_is_time_in_the_compiler() -> None:
    @njit
    def inside(x):  # type: ignore[no-untyped-def]
        return x * 2

    @njit
    def outside(x):  # type: ignore[no-untyped-def]
        return inside(x) + 1

    before = clock._WATCH.here.seconds
    outside(3)
    compiled = clock._WATCH.here.seconds
    assert compiled > before
    outside(4)
    assert clock._WATCH.here.seconds == compiled


def compile_for(seconds: float) -> Iterator[None]:
    """A worker's task: seconds in the compiler."""
    clock.stand_still(seconds)
    yield None


def test_what_workers_compile_is_not_counted_and_not_twice() -> None:
    pool = Pool(2, {"compile": compile_for})
    try:
        before = clock.compiling_time()
        for number, seconds in enumerate((100.0, 70.0)):
            pool.start(("task", number), "compile", seconds)
        news = _all_news(pool)
        assert {one.what for one in news} == {"part", "done"}
        assert clock.compiling_time() - before == 100.0
        for number in range(2):
            pool.start(("task", number), "compile", 20.0)
        _all_news(pool)
        assert clock.compiling_time() - before == 120.0
    finally:
        pool.close()


def _all_news(pool: Pool) -> list[News]:
    """Until both workers have nothing to do. Either, or both at once, may be heard first."""
    found: list[News] = []
    while pool.idle < 2:
        found += pool.news()
    return found


def test_limits_and_times_of_solving_are_by_that_clock() -> None:
    # Of a cluster it is other computers that are waited for.
    by_another = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "solver").rglob("*.py")
        if re.search(r"\btime\.\w+\(|^from time import", path.read_text(), re.MULTILINE)
    ]
    assert by_another == ["solver/passes/cluster.py"]
