"""What ends a command ends the processes that work for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_factory import ROOT

from corebraid.study.replays.in_processes import in_processes

SCRIPT = """
import os, time
from corebraid.study.replays.in_processes import in_processes

def work(item):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(100)

with in_processes(work, [1, 2], 2) as found:
    list(found)
"""
_LONGEST = 60.0


def is_there(pid: int) -> bool:
    """Whether a process runs; one that only waits to be counted does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


HUNT = """
import os, time
from pathlib import Path
from corebraid.study import hunting
from corebraid.study.forked_runs import Machines

def attempt(subject, tried, where, conditions):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(100)

hunting.attempt = attempt
tries = iter([hunting.Attempt(n, 0, "random") for n in range(2)])
hunting.can_fork = lambda _: False
hunting.hunt_in(Path("."), None, lambda **_: tries, (), Machines(2), print)
"""
#: Each run is a process of its own, forked from another.
FORKED = f"""
import os, time
from corebraid.base.kernel_cache import use_kernel_cache
use_kernel_cache()
import corebraid
from corebraid.study import forked_runs

def judged(*_):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(100)

forked_runs.judged = judged
corebraid.hunt("{ROOT}/firmware/linux/x86_64/good_counter", "{{place}}", jobs=2)
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("script", [SCRIPT, HUNT, FORKED], ids=["replays", "hunt", "forked"])
def test_nobody_is_left_behind(script: str, how: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script.replace("{place}", str(tmp_path / "rec"))], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        # Also where this one was started so as to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    assert all(is_there(pid) for pid in workers)
    process.send_signal(how)
    assert process.wait() != 0
    until = time.monotonic() + _LONGEST
    while any(is_there(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(is_there(pid) for pid in workers)


def _at_work(place: Path) -> None:
    (place / f"{os.getpid()}.partial").touch()
    time.sleep(100)


def test_workers_do_nothing_more_once_it_is_said_that_they_have_ended(tmp_path: Path) -> None:
    """What they left half done is then removed."""
    with pytest.raises(KeyboardInterrupt), in_processes(_at_work, [tmp_path] * 3, 3):  # noqa: PT012
        while len(begun := list(tmp_path.iterdir())) < 3:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert not any(Path("/proc", path.stem).exists() for path in begun)
