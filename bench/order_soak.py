"""The soak campaign of program order: does every order keep what threads, kernel and devices did in sequence?
Judged from sealed truth and core logs alone (bench/true_threads.py), never from sync points.

    python bench/order_soak.py [--recordings 200] [--first-seed 0] [--minutes 60]
                               [--programs thread_order,uts]

Each recording is drawn from its seed: a Linux program or firmware, 2 to 8 cores, SC or TSO, a schedule,
slices, cache, strata or none. Of each: an order is found and passes the checker; no access stands before one
that its thread made earlier, on whichever core, nor before what calls, messages, transfers and interrupts put
before it; and thread_order's own marks say the same. Every second recording is ordered by values alone, where
nothing but sync points says so, the others as `order` does. And all that tenures and losses prove of it is
true (bench/true_tenures.py). Prints a line for each program, and exits with 1 if a step is out of order, an
edge is false or anything else failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from corebraid.base.kernel_cache import use_kernel_cache  # noqa: E402
from recorder.files.manifest import ORDER_CERT  # noqa: E402

use_kernel_cache()

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from bench import linux_soak, soak  # noqa: E402
from bench.marks_order import misplaced_marks  # noqa: E402
from bench.true_order import Broken, held_traces  # noqa: E402
from bench.true_places import Placed, misplaced  # noqa: E402
from bench.true_tenures import proved_edges  # noqa: E402
from bench.true_threads import promises  # noqa: E402
from corebraid.names.program import GuestProgram  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.firmware import record  # noqa: E402
from recorder.files.constraints import LOSSES, VALUES  # noqa: E402
from recorder.files.evidence_names import DEFAULT_EVIDENCE  # noqa: E402
from recorder.files.reader import Recording  # noqa: E402
from recorder.replay.traces import RecordingTraces  # noqa: E402
from solver.passes.answers import Options  # noqa: E402
from solver.passes.order import order_recording  # noqa: E402
from solver.regions.problem import Verdict  # noqa: E402
from solver.regions.traces import MemoryTraces  # noqa: E402

LINUX = (
    "thread_order", "thread_order", "barriers", "semaphores", "mutexes", "condvars", "rwlocks", "spinlocks",
    "futex_raw", "pipes_poll", "sockets", "signals", "signalfds", "signal_waits", "splices", "clocks", "jit",
    "mmap_play", "files", "robust", "pi_mutexes", "cancellation", "once_exit", "threads64", "thread_local",
    "static_pie_threads", "affinity", "good_counter", "bug_aba", "bug_atomicity", "bug_publication",
    "exit_seven",
)  # fmt: skip
FIRMWARE = (
    "dma_race", "timer", "rpc_queens", "rpc_slaves", "rpc_divide", "pgas_uts", "pgas_fib", "pgas_is",
    "pgas_laplace", "uts", "litmus", "ring",
)  # fmt: skip


@dataclass
class Found:
    """Of one recording, or many. steps: rows, edges, agents' accesses and those of them that are certainly
    one thread's; proved: edges of tenures and losses; wrong: steps out of order and false edges, by kind."""

    recordings: int = 0
    undecided: int = 0
    rows: int = 0
    edges: int = 0
    agents: int = 0
    attributed: int = 0
    proved: int = 0
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        """Add another's counts."""
        for name in ("recordings", "undecided", "rows", "edges", "agents", "attributed", "proved"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong


def draw(seed: int, programs: tuple[str, ...]) -> tuple[linux_soak.Plan | soak.Plan, bool]:
    """(the plan of a seed, whether it is a Linux program)."""
    rng = random.Random(f"order/{seed}")
    program, cores = rng.choice(programs), rng.choice((2, 3, 4, 5, 8))
    model = rng.choice(("sc", "tso"))
    strata = rng.choice(("none", "none", "cycles:5000", "cycles:100000", "downgrades:50"))
    cache = rng.choice(("unbounded", "unbounded", "1k:2:32", "4k:2:64", "512:1:16"))
    store_buffer = rng.choice((1, 2, 8, 64))
    if program in FIRMWARE:
        least = 100 if program == "ring" else 5
        return soak.Plan(
            program, cores, seed, rng.choice(("random", "random", "round-robin", "pct:3")),
            max(least, rng.choice((5, 30, 300, 3000))), strata, cache, model=model, store_buffer=store_buffer,
            evidence=DEFAULT_EVIDENCE,
        ), False  # fmt: skip
    return linux_soak.Plan(
        program, cores, seed, rng.choice(("random", "random", "round-robin", "pct:3", "chaos")),
        rng.choice((7, 30, 200, 1000, 10_000)), strata, cache, model, store_buffer,
    ), True  # fmt: skip


def make(plan: linux_soak.Plan | soak.Plan, folder: Path) -> None:
    """Record as planned. Raises Broken unless the guest did what it may."""
    if isinstance(plan, linux_soak.Plan):
        linux_soak.judge(plan.program, linux_soak.record_plan(plan, folder))
    else:
        stdin = soak.expectations().expectation(plan.program, plan.cores, plan.model).stdin
        image = soak.IMAGES / f"{plan.program}.elf"
        record(image, folder, X86_64, plan.options(stdin), bytearray().extend)


def examine(folder: Path, timeout_s: float = 10.0, constraints: str = VALUES) -> Found:
    """Order the recording by `constraints` and judge the order, and what tenures and losses prove. Raises
    Broken or CorebraidError."""
    recording = Recording.open(folder)
    traces = held_traces(recording)
    certificate = folder / ORDER_CERT
    obeyed = traces if constraints == VALUES else RecordingTraces(recording, constraints=constraints)
    result = order_recording(obeyed, certificate, recording.manifest.id, Options(timeout_s=timeout_s))
    if any(region.verdict is Verdict.ILLEGAL for region in result.regions):
        raise Broken("the solver calls a region illegal, but it ran")
    kept, placed = promises(recording, traces), Placed(traces, certificate, recording.manifest.id)
    found = Found(
        1, placed.undecided, sum(map(len, traces.rows)), len(kept.edges), kept.agents, kept.attributed
    )
    found.wrong.update(misplaced(kept, placed))
    if recording.manifest.program.name == "thread_order" and not placed.undecided:
        found.wrong["marks"] += len(misplaced_marks(mark_lines(recording, traces, placed)))
    found.proved, false = proved_edges(recording)
    found.wrong["proved"] += len(false)
    found.wrong = +found.wrong
    return found


def mark_lines(recording: Recording, traces: MemoryTraces, placed: Placed) -> list[str]:
    """The accesses to thread_order's marks in the order of a certificate, as `marks_order` reads them."""
    lines: list[tuple[int, str]] = []
    symbols = GuestProgram.of(recording.path, recording.manifest).symbols
    for name in ("marks", "child_marks"):
        symbol = symbols.named(name)
        assert symbol is not None
        begin = symbol.address
        for rows, places in zip(traces.rows, placed.places, strict=True):
            inside = _inside(rows, begin, symbol.size)
            for address, place in zip(rows["addr"][inside].tolist(), places[inside].tolist(), strict=True):
                lines.append((place, json.dumps({"data": name, "data_offset": address - begin})))
    return [line for _, line in sorted(lines)]


def _inside(rows: NDArray[np.void], begin: int, size: int) -> NDArray[np.bool_]:
    answer: NDArray[np.bool_] = (rows["addr"] >= begin) & (rows["addr"] < begin + size)
    return answer


def main() -> int:
    """Run the campaign; returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Record, order, and judge orders by what threads really did."
    )
    parser.add_argument("--recordings", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long; 0: run to the end")
    parser.add_argument("--programs", default=",".join(LINUX + FIRMWARE), help="which, with commas between")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for the solver, per region")
    chosen = parser.parse_args()
    programs, begin = tuple(chosen.programs.split(",")), time.monotonic()
    by_program: dict[str, Found] = {}
    failed = 0
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.recordings):
        if chosen.minutes and time.monotonic() - begin > 60 * chosen.minutes:
            print(f"stopped before seed {seed}", file=sys.stderr)
            break
        plan, _ = draw(seed, programs)
        with linux_soak.place() as folder:
            try:
                make(plan, folder / "rec")
                found = examine(folder / "rec", chosen.timeout, (VALUES, LOSSES)[seed % 2])
            except (Exception, Broken) as error:
                failed += 1
                print(f"FAILED {seed}: {plan}\n       {type(error).__name__}: {error}", flush=True)
                continue
        by_program.setdefault(plan.program, Found()).add(found)
        if found.wrong:
            print(f"OUT OF ORDER {seed}: {plan}\n       {dict(found.wrong)}", flush=True)
    total = Found()
    for program, found in sorted(by_program.items()):
        total.add(found)
        print(_line(program, found))
    print(_line("total", total))
    print(f"{failed} recordings failed, {time.monotonic() - begin:.0f} s")
    return 1 if failed or total.wrong else 0


def _line(name: str, found: Found) -> str:
    agents = f"{found.agents:>11,} accesses of agents, {found.attributed:,} certainly a thread's"
    proved = f"{found.proved:>9,} edges proved"
    return (
        f"{name:20}{found.recordings:>5} recordings, {found.undecided} regions undecided, {found.rows:>12,} "
        f"accesses, {found.edges:>9,} edges, {agents}, {proved}, wrong: {dict(found.wrong) or 0}"
    )


if __name__ == "__main__":
    sys.exit(main())
