"""The CUDA back end in numba's simulator, in a process of its own: it finds what the CPU back end finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_factory import record, run
from lightplay_factory import random_instance

from corebraid.base.errors import UsageError
from solver.evidence.lightplay import search_cuda as cuda_search
from solver.evidence.lightplay.interleavings import TooLong
from solver.evidence.lightplay.search_cuda import check_fits, fits, pack

ROOT = Path(__file__).resolve().parents[3]

_COMPARE = """
from lightplay_factory import instance, random_instance
from solver.evidence.lightplay.cuda_batch import SHARED
from solver.evidence.lightplay.search_cpu import search_cpu
from solver.evidence.lightplay.search_cuda import PHASES, search_cuda
from solver.evidence.lightplay.slice_problem import GIVES, TAKES

slices = [random_instance(seed, ops=3 + seed % 4, cores=2 + seed % 2) for seed in range(9)]
# Of more places than registers have room for: one of these is in shared memory whatever is asked for.
many = [[(p, GIVES, 0, 7) for p in range(9)], [(8, TAKES | GIVES, 7, 9)]]
slices.insert(4, instance([[many[0]], [many[1]]], [0] * 9, [7] * 8 + [9]))
expected = [search_cpu(one) for one in slices]
assert sum(one.total for one in expected) > 10
phases = {}
ways = [(False, None, None), (True, None, None), (False, SHARED, None), (True, SHARED, None)]
for constant, layout, taken in [*ways, (False, None, phases)]:
    found = search_cuda(slices, batch=2, streams=2, constant=constant, layout=layout, phases=taken)
    for one, other in zip(found, expected, strict=True):
        assert (one.orders.tolist(), one.total) == (other.orders.tolist(), other.total)
        assert one.exhausted
assert tuple(phases) == PHASES and all(seconds >= 0 for seconds in phases.values())
print("agreed on", len(slices))
"""

_SLICES = """
import sys
from corebraid.cli.group import cli
cli(["slices", sys.argv[1], "--backend", "cuda", "--json"])
"""


def simulated(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program with the simulator in place of a GPU."""
    environment = {
        **os.environ,
        "NUMBA_ENABLE_CUDASIM": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "factories")]),
    }
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_the_simulator_finds_what_the_cpu_finds() -> None:
    ran = simulated(_COMPARE)
    assert (ran.returncode, ran.stdout) == (0, "agreed on 10\n"), ran.stderr


@pytest.mark.soak
def test_a_recording_is_searched(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    options = ("--cores", 2, "--slice", 100, "--slice-accesses", 6, "--evidence", "slices")
    assert record(path, "peterson", *options).code == 0
    ran = simulated(_SLICES, path)
    assert ran.returncode == 0, ran.stderr
    ours, expected = json.loads(ran.stdout), json.loads(run("slices", path, "--backend", "cpu", "--json").out)
    assert ours["searched"] > 3
    for name in ("searched", "orders_found", "how", "constraints"):
        assert ours[name] == expected[name]


def test_without_a_device_it_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDevice:
        @staticmethod
        def is_available() -> bool:
            return False

    import numba

    monkeypatch.setattr(numba, "cuda", NoDevice, raising=False)
    with pytest.raises(UsageError, match=r"no CUDA device.*corebraid\[cuda\]"):
        cuda_search.search_cuda([random_instance(1)])


def test_time_is_added_up_by_phase_and_the_device_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Device:
        @staticmethod
        def synchronize() -> None:
            events.append("waited")

    ticks = iter((10.0, 11.0, 13.0, 17.0, 25.0))
    monkeypatch.setattr(cuda_search, "working_time", lambda: next(ticks))
    phases: dict[str, float] = {}
    laps = cuda_search._Laps(Device, phases)
    laps.end("copy")
    laps.end("launch", wait=False)
    assert events == ["waited"]
    laps.end("kernel")
    laps.end("copy")
    assert (phases, events) == ({"copy": 9.0, "launch": 2.0, "kernel": 4.0}, ["waited"] * 3)


def test_nothing_is_waited_for_unless_time_is_asked_for() -> None:
    cuda_search._Laps(None, None).end("copy")


def test_what_does_not_fit_is_refused() -> None:
    problem = random_instance(3, ops=9)
    assert fits(problem, 1 << 20)
    with pytest.raises(TooLong, match="too large for back end cuda"):
        check_fits(problem, 10)


def test_a_batch_holds_each_slice_as_it_is() -> None:
    slices = [random_instance(seed, ops=6) for seed in range(5)]
    packed = pack(slices)
    for k, one in enumerate(slices):
        cores, ops, parts, places = (slice(int(row[k]), int(row[k + 1])) for row in packed.ptr)
        assert packed.core_ptr[cores].tolist() == one.core_ptr.tolist()
        assert packed.part_ptr[ops].tolist() == one.part_ptr.tolist()
        assert packed.before[parts].tolist() == one.before.tolist()
        assert packed.final[places].tolist() == one.final.tolist()
