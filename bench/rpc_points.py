"""`python -m bench points`: points of trace of receipt histories, against those of a recorder at system level
(Fagot and Chassin de Kergommeaux, section 3.3).

A call is four events: its request is sent (a) and received (b), its result is sent (c) and received (d).
Receipt histories note (b) alone, and each answer to a test. A recorder at system level knows messages, not
calls. It is counted twice: noting what is received, (b) and (d), as Instant Replay does for messages (the
paper's [6]); and noting every call of a primitive, (a) to (d). Both also note each look for a message that
found none: what such a look answers is not determined. Counted in the isolated replays, in which each access
to a mailbox is seen.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from bench.programs import image
from bench.report import Column, Table, publish
from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.event import WRITE
from emu.devices.mail_state import ANSWERED, POSTED, RECEIVED, TESTED
from emu.devices.mailbox import MAIL_TAKE
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.evidence.rpc.receipts import receipts_of
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay
from recorder.replay.mail_trace import recorded_mail

PROGRAMS = ("rpc_divide", "rpc_prolog", "rpc_iterate", "rpc_slaves", "rpc_strassen", "rpc_queens")
CORES = (4, 8)


@dataclass(frozen=True)
class Points:
    """What happened to a run's messages. looks: for a message, that found none."""

    sent: int
    requests: int
    results: int
    tests: int
    looks: int

    @property
    def ours(self) -> int:
        """Receipts of requests, and answers to tests."""
        return self.requests + self.tests

    @property
    def received(self) -> int:
        """At system level, what is received alone."""
        return self.requests + self.results + self.looks

    @property
    def every(self) -> int:
        """At system level, every call of a primitive."""
        return self.sent + self.received


def empty_looks(recording: Recording, core: int) -> int:
    """How often a core looked for a message, did not wait for one, and found none."""
    found = 0
    for rows in CoreReplay(recording, core, traced=True).run(None):
        looks = (rows["addr"] == np.uint64(DEVICE_BASE) + MAIL_TAKE) & (rows["kind"] != WRITE)
        found += int((looks & (rows["new"] == 0)).sum())
    return found


def points_of(recording: Recording) -> Points:
    """Count a recording's. Raises AssertionError if the evidence would say otherwise of what it notes."""
    events, cores = recorded_mail(recording).events, recording.manifest.n_cores
    counts = {kind: int((events["what"] == kind).sum()) for kind in (POSTED, RECEIVED, ANSWERED, TESTED)}
    evidence = receipts_of(events, cores)
    assert evidence.requests == counts[RECEIVED]
    looks = sum(empty_looks(recording, core) for core in range(cores))
    return Points(counts[POSTED], counts[RECEIVED], counts[ANSWERED], counts[TESTED], looks)


def measure(program: str, cores: int) -> Points:
    """Record a program and count."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        path = Path(folder) / "rec"
        options = RecordOptions(cores=cores, seed=1, evidence=("rpc",), memory_bytes=8 << 20)
        record(image(program), path, X86_64, options, lambda _: None)
        return points_of(Recording.open(path))


def main(
    console: Console, programs: tuple[str, ...] = PROGRAMS, cores: tuple[int, ...] = CORES
) -> list[Table]:
    """Count and publish."""
    table = Table(
        "points",
        "Points of trace of receipt histories and at system level (section 3.3)",
        [
            Column("program"),
            *(Column(name, "d") for name in ("cores", "calls", "tests", "empty looks", "ours")),
            *(Column(name, ".1f") for name in ("received / ours", "every primitive / ours")),
        ],
        [
            "ours: receipts of requests and answers to tests. received: receipts of requests and results, and"
            " looks that found no message. every primitive: sending of both, too.",
            "Seed 1, small input. The paper: up to six times fewer, of some implementations over PVM.",
        ],
    )
    for program in programs:
        for n in cores:
            console.print(f"{program} on {n} cores", style="dim")
            one = measure(program, n)
            ratios = one.received / one.ours, one.every / one.ours
            table.add(program, n, one.requests, one.tests, one.looks, one.ours, *ratios)
    publish("points", [table], console)
    return [table]
