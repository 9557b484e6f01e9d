"""z3 in a process of its own: it is used again, its limit holds whatever it does, and it outlives nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cli_factory import ROOT

from bench.ordering_traces import region
from corebraid.base.errors import CorebraidError
from solver.passes.pool import DONE, PART, Pool
from solver.regions.problem import Problem, Verdict
from solver.smt import process as smt_process
from solver.smt.engine import Z3_DIED, solve_smt
from solver.smt.process import PROCESSES

#: Says that it is ready, as `solver.smt.child` does, then reads what comes and never answers.
_DEAF = (
    "import sys; from multiprocessing.connection import Connection; c = Connection(int(sys.argv[1])); "
    "c.send(('done', None))\nwhile True: c.recv()  # {path}"
)
_LONG_S = 60


@pytest.fixture(autouse=True)
def _none_left() -> None:
    PROCESSES.close()


def small() -> Problem:
    return region("unique", cores=2, events=20)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for_the_end(pid: int) -> None:
    until = time.monotonic() + _LONG_S
    while is_alive(pid):
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.01)


def test_it_is_started_once() -> None:
    found = [solve_smt(small(), timeout_s=_LONG_S, encoding=name) for name in ("chain", "paper", "chain")]
    assert {solution.verdict for solution in found} == {Verdict.LEGAL}
    assert len(PROCESSES.idle) == 1
    pid = PROCESSES.idle[0]
    solve_smt(small(), timeout_s=_LONG_S)
    assert PROCESSES.idle == [pid]


def test_z3_stays_out_of_this_process() -> None:
    code = (
        "import sys; from bench.ordering_traces import region\n"
        "from solver.passes.answers import Options, solve\n"
        "found = solve(region('unique', cores=2, events=20), Options('smt'))\n"
        "print(found.verdict.value, 'z3' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "legal False\n"


def test_who_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt_process, "_LATE_S", 0.1)
    with monkeypatch.context() as deaf:
        deaf.setattr(smt_process, "_CODE", _DEAF)
        before = children()
        solution = solve_smt(small(), timeout_s=0.2)
        assert (solution.verdict, solution.reason) == (Verdict.UNDECIDED, "timeout")
        assert children() == before
    assert solve_smt(small(), timeout_s=_LONG_S).verdict is Verdict.LEGAL


def children() -> set[int]:
    """Process ids of this process's children that are alive."""
    found = (Path("/proc/self/task") / str(threading.get_native_id()) / "children").read_text(
        encoding="ascii"
    )
    return {int(pid) for pid in found.split() if is_alive(int(pid))}


def test_one_that_died_is_replaced() -> None:
    solve_smt(small(), timeout_s=_LONG_S)
    (pid,) = PROCESSES.idle
    os.kill(pid, signal.SIGKILL)
    wait_for_the_end(pid)
    assert solve_smt(small(), timeout_s=_LONG_S).verdict is Verdict.LEGAL
    assert PROCESSES.idle != [pid]


def test_one_that_dies_at_work_leaves_the_region_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt_process, "_CODE", _DEAF.replace("while True: c.recv()", "c.recv(); sys.exit(3)"))
    solution = solve_smt(small(), timeout_s=_LONG_S)
    assert (solution.verdict, solution.reason) == (Verdict.UNDECIDED, Z3_DIED)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import sys; sys.exit(7)  # {path}", "did not start"),
        ("raise MemoryError  # {path}", "exit status 1"),
    ],
)
def test_one_that_does_not_start_is_one_line(code: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt_process, "_CODE", code)
    with pytest.raises(CorebraidError, match=what):
        solve_smt(small(), timeout_s=_LONG_S)


def test_what_it_raises_comes_back_and_it_lives_on() -> None:
    with pytest.raises(CorebraidError, match="KeyError: 'nothing'"):
        solve_smt(small(), timeout_s=_LONG_S, encoding="nothing")
    assert len(PROCESSES.idle) == 1
    assert solve_smt(small(), timeout_s=_LONG_S).verdict is Verdict.LEGAL


def test_each_thread_has_one_of_its_own() -> None:
    verdicts: list[Verdict] = []
    threads = [
        threading.Thread(target=lambda: verdicts.append(solve_smt(small(), timeout_s=_LONG_S).verdict))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [Verdict.LEGAL] * 3
    assert 1 <= len(PROCESSES.idle) <= 3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("busy", [False, True])
def test_it_ends_with_its_parent(busy: bool, how: signal.Signals) -> None:
    """Also in the middle of a formula: the paper's, of a region that takes z3 far longer than the test."""
    code = (
        "import time; from bench.ordering_traces import region; from solver.smt.engine import solve_smt\n"
        "from solver.smt.process import PROCESSES\n"
        "small, large = region('unique', cores=2, events=20), region('domain:2', cores=4, events=400)\n"
        "solve_smt(small, timeout_s=60); print(PROCESSES.idle[0], flush=True)\n"
        f"solve_smt(large, timeout_s=600, encoding='paper') if {busy} else time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if busy:
            began = processor_ticks(pid)
            while processor_ticks(pid) < began + 10:
                time.sleep(0.01)
        parent.send_signal(how)
        parent.wait(60)
        wait_for_the_end(pid)


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_forked_process_starts_its_own() -> None:
    solve_smt(small(), timeout_s=_LONG_S)
    (mine,) = PROCESSES.idle

    def solve_there():  # type: ignore[no-untyped-def]
        yield solve_smt(small(), timeout_s=_LONG_S).verdict, PROCESSES.idle

    pool = Pool(1, {"solve": solve_there})
    try:
        pool.start(("solve", 0), "solve")
        news = []
        while not news or news[-1].what != DONE:
            news += pool.news()
        assert [one.what for one in news] == [PART, DONE]
        verdict, (theirs,) = news[0].value
        assert verdict is Verdict.LEGAL
        assert theirs != mine
    finally:
        pool.close()
    wait_for_the_end(theirs)
    assert PROCESSES.idle == [mine]
    assert solve_smt(small(), timeout_s=_LONG_S).verdict is Verdict.LEGAL
    assert PROCESSES.idle == [mine]
