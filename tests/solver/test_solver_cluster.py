"""Regions solved on a dask cluster of two worker processes, one of which is killed in the middle."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import distributed
import pytest
from engine_suite import RECORDING
from trace_factory import Shape, make

from corebraid.base.errors import CorebraidError, UsageError
from solver.passes import answers as answers_module
from solver.passes import cluster as cluster_module
from solver.passes.answers import Options, solve
from solver.passes.order import Resources, order_recording
from solver.regions.problem import Problem, Solution, Verdict

LONG = Shape(steps=120, strata=0.1)


@pytest.fixture
def cluster() -> Iterator[distributed.LocalCluster]:
    """Two worker processes of one thread each, which are started anew when they die."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


def on_workers(cluster: distributed.LocalCluster, call: object, *arguments: object) -> None:
    """Run something on every worker, those that are there now and those that start later."""

    class Setup(distributed.WorkerPlugin):
        def setup(self, worker: distributed.Worker) -> None:
            call(*arguments)  # type: ignore[operator]

    with distributed.Client(cluster, set_as_default=False) as client:
        client.register_plugin(Setup(), name="test")


def solve_badly(region: int, mark: str, times: int) -> None:
    """On a worker: solving `region` kills the process, the first `times` times; all others take a while."""
    from solver.passes import answers

    original = answers.solve

    def some(problem: Problem, options: Options) -> Solution:
        time.sleep(0.05)
        if problem.region == region:
            with Path(mark).open("ab") as file:
                file.write(b".")
            if Path(mark).stat().st_size <= times:
                os.kill(os.getpid(), signal.SIGKILL)
        return original(problem, options)

    answers.solve = some


@pytest.fixture
def alone(tmp_path: Path) -> tuple[bytes, int]:
    """What one process makes of the recording, and a region in its middle with something to solve."""
    result = order_recording(make(6, LONG).traces, tmp_path / "alone", RECORDING)
    hard = [r.region for r in result.regions if r.counts.unfiltered]
    return (tmp_path / "alone").read_bytes(), hard[3]


@pytest.mark.soak
def test_a_worker_that_dies_loses_nothing(
    cluster: distributed.LocalCluster,
    alone: tuple[bytes, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, region = alone
    on_workers(cluster, solve_badly, region, str(tmp_path / "mark"), 1)

    def nowhere(problem: Problem, options: Options) -> Solution:
        assert problem.n_ops == 0, "solved here and not on the cluster"
        return solve(problem, options)

    monkeypatch.setattr(answers_module, "solve", nowhere)
    resources = Resources(jobs=1, cluster=cluster.scheduler_address)
    result = order_recording(make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, resources)
    assert result.verdict is Verdict.LEGAL
    assert (tmp_path / "mark").stat().st_size == 2
    assert (tmp_path / "c").read_bytes() == expected


@pytest.mark.soak
def test_a_region_that_kills_every_worker_is_undecided(
    cluster: distributed.LocalCluster, alone: tuple[bytes, int], tmp_path: Path
) -> None:
    _, region = alone
    on_workers(cluster, solve_badly, region, str(tmp_path / "mark"), 1000)
    resources = Resources(jobs=1, cluster=cluster.scheduler_address)
    result = order_recording(make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, resources)
    left = [(r.region, r.reason) for r in result.regions if r.verdict is not Verdict.LEGAL]
    assert left == [(region, "worker died")]


def test_another_solver_on_the_workers_is_refused(
    cluster: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solver.passes.cluster.solver_digest", lambda: bytes(16))
    resources = Resources(jobs=1, cluster=cluster.scheduler_address)
    with pytest.raises(UsageError, match="a worker has another version of corebraid"):
        order_recording(make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, resources)


def test_a_cluster_without_workers_is_left(
    cluster: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_LONELY_S", 0.5)
    address = cluster.scheduler_address
    cluster.scale(0)
    deadline = time.monotonic() + 30
    while cluster.scheduler.workers and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(CorebraidError, match=r"no worker for 0\.5 s"):
        order_recording(
            make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, Resources(jobs=1, cluster=address)
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:9", "nonsense", "tcp://", "tcp://127.0.0.1:x", "ucx://1:1"]
)
def test_nobody_there_is_one_clear_error(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_CONNECT_S", 1)
    with pytest.raises(UsageError, match=f"cluster {address}: no scheduler answers") as caught:
        order_recording(
            make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, Resources(jobs=1, cluster=address)
        )
    assert caught.value.exit_code == 2


def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is made where a program listens, also if it never takes it."""
    monkeypatch.setattr(cluster_module, "_CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"cluster {address}: no scheduler answers") as caught:
            order_recording(
                make(6, LONG).traces,
                tmp_path / "c",
                RECORDING,
                None,
                None,
                Resources(jobs=1, cluster=address),
            )
    assert caught.value.exit_code == 2


class Cut:
    """In front of a scheduler: what it says is passed on up to a number of bytes, and nothing behind that."""

    def __init__(self, address: str, most: int) -> None:
        host, port = address.removeprefix("tcp://").split(":")
        self._behind, self._left = (host, int(port)), most
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, theirs = self._server.accept()[0], socket.create_connection(self._behind)
                self._ends += [ours, theirs]
                threading.Thread(target=self._pass, args=(ours, theirs, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(theirs, ours, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if counted:
                    data = data[: self._left]
                    self._left -= len(data)
                target.sendall(data)

    def close(self) -> None:
        for end in (self._server, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.mark.soak
@pytest.mark.parametrize("most", [300, 1500, 4000])
def test_a_scheduler_that_falls_silent_is_not_waited_for(
    most: int, cluster: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a connection, and of the first answer that is asked for."""
    monkeypatch.setattr(cluster_module, "_CONNECT_S", 2)
    monkeypatch.setattr(cluster_module, "_ANSWER_S", 1.0)
    monkeypatch.setattr(cluster_module, "_LONELY_S", 1.0)
    cut = Cut(cluster.scheduler_address, most)
    resources = Resources(jobs=1, cluster=cut.address)
    try:
        with pytest.raises(CorebraidError, match=r"no scheduler answers|the cluster is lost"):
            order_recording(make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, resources)
    finally:
        cut.close()


def test_what_is_no_scheduler_is_one_clear_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its first bytes are taken for a length of exabytes, and memory for that is asked for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            for _ in range(2):
                with suppress(OSError):
                    heard.append(server.accept()[0])
                    heard[-1].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)

        heard: list[socket.socket] = []
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(UsageError, match=f"cluster {address}: no scheduler answers"):
            order_recording(
                make(6, LONG).traces, tmp_path / "c", RECORDING, None, None, Resources(cluster=address)
            )
        gc.collect()
        for one in heard:
            one.close()
    assert capfd.readouterr().err == ""
