"""`corebraid order` interrupted at moments drawn at random: few of those of `bench.interrupts`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from cli_factory import record

from bench import interrupts as campaign
from bench.interrupts import LINE, Ended, interrupted_orders, marked, run

#: Ctrl-C while LLVM waits for what the cache holds of one kernel, KERNEL, where Numba loads it, or makes it.
_AS_IT_IS_LOADED = """
import signal
from corebraid.base.kernel_cache import use_kernel_cache
use_kernel_cache()
from corebraid.base.compiled.store import Store
load = Store.load
Store.load = lambda self, kernel, key: None if kernel.endswith("." + KERNEL) else load(self, kernel, key)
from numba.core.codegen import CPUCodeLibrary
fetch = CPUCodeLibrary._object_getbuffer_hook
def interrupted(module):
    if module.name == KERNEL:
        signal.raise_signal(signal.SIGINT)
    return fetch(module)
CPUCodeLibrary._object_getbuffer_hook = interrupted
"""
#: And while it is loaded without Numba.
_AS_IT_IS_READ = """
import signal
from corebraid.base.compiled.store import Store
load = Store.load
def interrupted(self, kernel, key):
    found = load(self, kernel, key)
    if kernel.endswith("." + KERNEL):
        signal.raise_signal(signal.SIGINT)
    return found
Store.load = interrupted
"""


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts with many regions."""
    path = tmp_path_factory.mktemp("interrupts") / "rec"
    assert record(path, "uts", "--strata", "cycles:10000").code == 0
    return path


def test_at_any_moment_it_is_one_line(rec: Path) -> None:
    counts, failures = interrupted_orders(rec, 6, seed=12)
    assert not failures, "\n".join(failures)
    assert counts["interrupted"] > 2


@pytest.mark.parametrize("loaded", [_AS_IT_IS_LOADED, _AS_IT_IS_READ], ids=["by numba", "by itself"])
@pytest.mark.parametrize("kernel", ["sift_pieces", "walk_runs", "cross_seam"])
@pytest.mark.sampled(3)
def test_while_a_kernel_is_loaded(
    rec: Path, kernel: str, loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM drops what its callback raises, and goes on with a kernel at address 0."""
    mark = f"test-load-{os.getpid()}"
    assert run(("order", rec, "--fresh", "--jobs", 1), (), mark).finished
    code = loaded.replace("KERNEL", repr(kernel)) + campaign._CODE
    monkeypatch.setattr(campaign, "_CODE", code)
    ended = run(("order", rec, "--fresh", "--jobs", 1), (), mark)
    assert ended.interrupted, (ended.code, ended.err)


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
