"""`corebraid order` shows total, done and time left on a terminal, and nothing elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_factory import ROOT, record, run

from corebraid.cli import console
from corebraid.cli.order_progress import Replayed
from recorder.files.reader import Recording


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts with many regions."""
    path = tmp_path_factory.mktemp("progress") / "rec"
    assert record(path, "uts", "--strata", "cycles:10000").code == 0
    return path


def on_a_terminal(*arguments: object) -> str:
    """What a command prints on standard error if that is a terminal, colours left out."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "140"}
    command = [sys.executable, "-m", "corebraid", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break
        shown += piece
    os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())


@pytest.mark.parametrize("jobs", [1, 2])
def test_total_done_and_time_left(rec: Path, jobs: int) -> None:
    (_, instructions), (_, regions) = Replayed(Recording.open(rec)).works
    manifest = Recording.open(rec).manifest
    strata = manifest.totals["strata"]
    assert isinstance(strata, int)
    assert strata > 8
    assert (instructions, regions) == (sum(manifest.instructions), strata + 1)
    shown = on_a_terminal("order", rec, "--fresh", "--jobs", jobs)
    assert re.search(rf"instructions replayed .* {instructions:,} of {instructions:,} .* left ", shown)
    assert re.search(rf"regions ordered .* {regions} of {regions} .* left ", shown)


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_where_nobody_looks(rec: Path, jobs: int) -> None:
    ran = run("order", rec, "--fresh", "--jobs", jobs)
    assert (ran.code, ran.err) == (0, "")


def test_nobody_is_asked_where_nobody_looks() -> None:
    with console.progress_of([("work", 3)], lambda: pytest.fail("asked")):
        pass


def test_no_more_than_all(rec: Path) -> None:
    """A replay may go on a little beyond what is counted, and one that is begun again starts over."""
    progress = Replayed(Recording.open(rec))
    (_, instructions), (_, regions) = progress.works
    assert progress.done() == (0, 0)
    progress.replayed(0, 10)
    progress.replayed(1, 5)
    progress.replayed(0, 4)
    progress.ordered(2, regions)
    assert progress.done() == (9, 2)
    progress.replayed(1, 10 * instructions)
    assert progress.done() == (instructions, 2)
