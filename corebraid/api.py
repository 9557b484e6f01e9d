"""The Python interface: what the commands do, as functions. `import corebraid` gives these names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from corebraid.study.engines import evidence_engine
from emu.board.elf import isa_of
from emu.bus.cache import CacheGeometry
from recorder.capture.firmware import Outcome, RecordOptions
from recorder.capture.firmware import record as _record
from recorder.capture.strata_policy import StrataPolicy
from recorder.files.constraints import LOSSES, VALUES
from recorder.files.evidence_names import DEFAULT_EVIDENCE
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_agent_trace
from recorder.replay.core import CoreReplay, ReplayResult, replay_core
from recorder.replay.traces import RecordingTraces
from solver.check.braid import braid
from solver.check.certificate import Certificate
from solver.check.checker import CheckReport, check_certificate
from solver.passes.answers import Options
from solver.passes.order import Resources, order_recording
from solver.passes.partial import FILE_NAME as PARTIAL_NAME
from solver.passes.results import OrderResult

Path_ = Path | str


def _discard(_: bytes) -> None:
    """Where a guest's output goes that nobody asked for."""


def record(
    program: Path_,
    directory: Path_,
    *,
    cores: int = 4,
    seed: int = 0,
    schedule: str = "random",
    cache: str = "unbounded",
    strata: str = "cycles:100000",
    model: str = "sc",
    store_buffer: int = 16,
    memory: int = 64 << 20,
    limit: int = 0,
    input: bytes = b"",
    losses: bool = True,
    console: Callable[[bytes], None] = _discard,
) -> Outcome:
    """Record the firmware image `program` into the new directory `directory`.

    schedule, cache, strata, model, store_buffer: as on the command line. memory: bytes of guest memory.
    limit: instructions over all cores after which to stop, 0 for none. input: what the guest reads. console:
    called with what it prints. losses: whether the recording says when its cores lost lines. A guest that
    fails is no error: see `Outcome.fault`. Raises UsageError, ImageError.
    """
    options = RecordOptions(
        cores=cores,
        seed=seed,
        schedule=schedule,
        cache=CacheGeometry.parse(cache),
        strata=StrataPolicy.parse(strata),
        model=model,
        store_buffer=store_buffer,
        memory_bytes=memory,
        limit=limit,
        input=input,
        evidence=DEFAULT_EVIDENCE if losses else (),
    )
    return _record(Path(program), Path(directory), isa_of(Path(program)), options, console)


def open_recording(directory: Path_) -> Recording:
    """The recording in `directory`. Raises FormatError."""
    return Recording.open(directory)


def _opened(recording: Recording | Path_) -> Recording:
    return recording if isinstance(recording, Recording) else Recording.open(recording)


def replay(recording: Recording | Path_, core: int) -> ReplayResult:
    """Replay one core from its own log alone, checked against every digest.

    Raises Divergence, FormatError, UsageError.
    """
    return replay_core(_opened(recording), core)


def order(
    recording: Recording | Path_,
    *,
    engine: str = "auto",
    encoding: str = "chain",
    region_timeout: float = 60.0,
    jobs: int = 1,
    cluster: str = "",
    keep: bool = False,
    constraints: str = LOSSES,
) -> OrderResult:
    """Find a legal order of every strata region and write `order.cert` into the recording.

    engine: as on the command line; one with evidence takes that from the recording, obeys values alone, and
    takes the regions in one process and once. region_timeout: seconds for one region; one that takes longer
    is left undecided and the rest goes on. jobs: processes to use, forked from this one. cluster: address of
    a dask.distributed scheduler that solves the regions. keep: use and leave `order.partial`, the solved
    regions of an ordering that is not finished, in the recording. constraints: "values" for the paper's
    alone, "tenures" for what miss records prove besides, "losses" for what lost lines do, if the recording
    has them.
    Raises OrderError when no order can exist, UsageError (no such engine; the recording lacks its evidence),
    FormatError, Divergence.
    """
    opened = _opened(recording)
    evidence = evidence_engine(opened, engine)
    options = Options(engine=engine, timeout_s=region_timeout, encoding=encoding, evidence=evidence)
    kept = opened.path / PARTIAL_NAME if keep and evidence is None else None
    resources = Resources(jobs, cluster, kept)
    return order_recording(
        RecordingTraces(opened, constraints=constraints if evidence is None else VALUES),
        opened.path / ORDER_CERT,
        opened.manifest.id,
        options,
        resources=resources,
    )


def check_order(recording: Recording | Path_) -> CheckReport:
    """Give the recording's certificate to the independent checker. Raises OrderError, FormatError."""
    opened = _opened(recording)
    certificate = Certificate(opened.path / ORDER_CERT, opened.manifest.id)
    return check_certificate(RecordingTraces(opened), certificate)


def trace(
    recording: Recording | Path_, core: int | None = None, *, ordered: bool = False
) -> Iterator[tuple[NDArray[Any], bool]]:
    """The accesses of one core, of all streams one after the other, or of all braided (`ordered`).

    Yields (rows, has_order): EVENT arrays of bounded length, and whether their regions have an order in
    the certificate (always True unless `ordered`). The stream after the last core is that of the agents.
    An ordered trace needs `order` first. Raises FormatError, Divergence, OrderError.
    """
    opened = _opened(recording)
    n_cores = opened.manifest.n_cores
    if ordered:
        certificate = Certificate(opened.path / ORDER_CERT, opened.manifest.id)
        for rows, has_order in braid(RecordingTraces(opened), certificate):
            yield (rows if core is None else rows[rows["core"] == core]), has_order
        return
    for stream in range(n_cores + 1) if core is None else (core,):
        if stream == n_cores:
            pieces = iter_agent_trace(opened)
        else:
            pieces = CoreReplay(opened, stream, traced=True).run()
        for rows in pieces:
            yield rows, True
