"""`corebraid order` interrupted at moments drawn at random: few of those of `bench.interrupts`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from cli_factory import record

import bench.interrupts as campaign
from bench.interrupts import LINE, Ended, interrupted_orders, marked, run


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts with many regions."""
    path = tmp_path_factory.mktemp("interrupts") / "rec"
    assert record(path, "uts", "--strata", "cycles:10000").code == 0
    return path


def test_at_any_moment_it_is_one_line(rec: Path) -> None:
    counts, failures = interrupted_orders(rec, 10, seed=12)
    assert not failures, "\n".join(failures)
    assert counts["interrupted"] > 3


@pytest.mark.parametrize(
    ("code", "err", "finished", "interrupted"),
    [
        (0, "", True, False),
        (130, f"{LINE}\n", False, True),
        (130, f"{LINE}\n{LINE}\n", False, False),
        (130, "", False, False),
        (130, f"{LINE}\nException ignored in: <function AstRef.__del__>\n", False, False),
        (1, f"{LINE}\n", False, False),
        (-2, "", False, False),
    ],
)
def test_the_campaign_can_fail(code: int, err: str, finished: bool, interrupted: bool) -> None:
    ended = Ended(code, "", err, 1.0, [])
    assert (ended.finished, ended.interrupted) == (finished, interrupted)


def test_the_campaign_finds_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "_GONE_S", 0.0)
    leaves = "import os, subprocess, sys; subprocess.Popen(['sleep', '600'], stdout=-3, stderr=-3)"
    monkeypatch.setattr(campaign, "_CODE", f"{leaves}; os.write(int(sys.argv[1]), b'.')")
    ended = run((), (), f"test-{os.getpid()}")
    assert len(ended.left) == 1
    os.kill(ended.left[0], signal.SIGKILL)
    assert not marked("no such run")
