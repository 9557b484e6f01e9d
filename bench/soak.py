"""The soak campaign: record every program again and again, and hold each recording to all it promises.

    python bench/soak.py [--cores 1,2,4,8,16] [--seeds 10] [--programs uts,ring] [--models sc,tso]
                         [--minutes 60]

Of each recording: the guest did what firmware/expected.json allows; every core replays bit-exactly, with
and without a trace; an order is found and its certificate passes the checker; the sealed truth is a legal
order; and memory at every stratum, worked out without solving (MICRO 2009, 4.2), is what it really was.
The last is judged by a naive walk that shares no code with the solver (bench/true_order.py). Prints a
table and totals, writes bench/out/soak.json, and exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from corebraid.base.kernel_cache import use_kernel_cache  # noqa: E402
from recorder.files.manifest import ORDER_CERT  # noqa: E402

use_kernel_cache()

import numpy as np  # noqa: E402

from bench.true_order import Broken, compare_boundaries, held_traces  # noqa: E402
from corebraid.base.errors import CorebraidError  # noqa: E402
from emu.bus.cache import CacheGeometry  # noqa: E402
from emu.bus.names import MESI, PAGE  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.firmware import Outcome, RecordOptions, record  # noqa: E402
from recorder.capture.strata_policy import StrataPolicy  # noqa: E402
from recorder.files.reader import Recording, iter_sealed_truth  # noqa: E402
from recorder.replay.core import replay_core  # noqa: E402
from solver.check.checker import check_slices  # noqa: E402
from solver.passes.answers import Options  # noqa: E402
from solver.passes.order import order_recording  # noqa: E402
from solver.regions.problem import Verdict  # noqa: E402
from solver.regions.traces import MemoryTraces  # noqa: E402

IMAGES = ROOT / "firmware" / "x86_64"
MEMORY_BYTES = 8 << 20
#: Programs that hang when a core is starved for long: a lock's holder must get its turn.
_SPINNERS = ("spin_mcs", "spin_ticket", "ring")


@dataclass
class Findings:
    """Counts over one recording, or many. regions_*: by what the solver answered. boundary: values at
    strata that were compared with the truth."""

    recordings: int = 0
    cores: int = 0
    instructions: int = 0
    events: int = 0
    strata: int = 0
    regions_legal: int = 0
    regions_illegal: int = 0
    regions_undecided: int = 0
    certificates: int = 0
    truths: int = 0
    boundary: int = 0

    def add(self, other: Findings) -> None:
        """Add another's counts."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


def expectations() -> Any:
    """firmware/expected.py as a module; firmware/ is a folder of data, not an import package."""
    spec = importlib.util.spec_from_file_location("firmware_expected", ROOT / "firmware" / "expected.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# -- one recording ---------------------------------------------------------------------------------------


def examine(path: Path, *, timeout_s: float = 10.0, order: bool = True) -> Findings:
    """Hold the recording at `path` to its promises. Raises Broken or CorebraidError."""
    recording = Recording.open(path)
    found = Findings(recordings=1, cores=recording.manifest.n_cores)
    found.instructions = sum(recording.manifest.instructions)
    for core in range(found.cores):
        result = replay_core(recording, core)
        if not result.complete or result.count != recording.manifest.instructions[core]:
            raise Broken(f"core {core} replayed {result.count} instructions, not to its end")
    traces = held_traces(recording)
    found.events, found.strata = sum(map(len, traces.rows)), len(traces.strata)
    batches = list(iter_sealed_truth(recording))
    truth = np.concatenate(batches) if batches else np.zeros(0, [("stream", "<u2"), ("end", "<u8")])
    check_slices(traces, [(truth["stream"].astype(np.int64), truth["end"].astype(np.uint64))])
    found.truths = 1
    found.boundary = compare_boundaries(traces, truth)
    if order:
        _order(traces, recording, timeout_s, found)
    return found


def _order(traces: MemoryTraces, recording: Recording, timeout_s: float, found: Findings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = order_recording(
            traces,
            Path(folder) / ORDER_CERT,
            recording.manifest.id,
            Options(timeout_s=timeout_s),
        )
    verdicts = Counter(region.verdict for region in result.regions)
    found.regions_legal = verdicts[Verdict.LEGAL]
    found.regions_illegal = verdicts[Verdict.ILLEGAL]
    found.regions_undecided = verdicts[Verdict.UNDECIDED]
    found.certificates = 1
    if found.regions_illegal:
        bad = next(region.region for region in result.regions if region.verdict is Verdict.ILLEGAL)
        raise Broken(f"the solver calls region {bad} illegal, but it ran")


# -- the campaign ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What to record."""

    program: str
    cores: int
    seed: int
    schedule: str = "random"
    longest_slice: int = 10_000
    strata: str = "cycles:10000"
    cache: str = "unbounded"
    limit: int = 0
    model: str = "sc"
    store_buffer: int = 16
    evidence: tuple[str, ...] = ()
    bus: str = MESI

    @classmethod
    def wild(cls, program: str, cores: int, seed: int, model: str = "sc") -> Plan:
        """Unusual slices, caches, schedules, strata and store buffers, drawn from the seed."""
        draw = random.Random(f"{program}/{cores}/{seed}")
        shortest = 100 if program in _SPINNERS else 5
        return cls(
            program,
            cores,
            seed,
            draw.choice(["random", "random", "round-robin", "pct:3"]),
            max(shortest, draw.choice([5, 10, 30, 100, 1000])),
            draw.choice(
                ["cycles:1000", "cycles:20000", "downgrades:1", "downgrades:5", "downgrades:50", "none"]
            ),
            draw.choice(["unbounded", "unbounded", "1k:2:32", "2k:2:64", "64:2:32", "512:1:16", "32k:4:256"]),
            model=model,
            store_buffer=draw.choice([1, 2, 4, 8, 64]),
        )

    @classmethod
    def pages(cls, program: str, cores: int, seed: int) -> Plan:
        """On the page bus, with unusual slices and strata."""
        draw = random.Random(f"pages/{program}/{cores}/{seed}")
        shortest = 100 if program in _SPINNERS else 5
        return cls(
            program, cores, seed, draw.choice(["random", "random", "round-robin"]),
            max(shortest, draw.choice([5, 10, 30, 100, 1000, 10_000])),
            draw.choice(["cycles:1000", "cycles:20000", "none"]), bus=PAGE,
        )  # fmt: skip

    def options(self, stdin: bytes) -> RecordOptions:
        """As the recorder takes them."""
        return RecordOptions(
            evidence=self.evidence,
            cores=self.cores,
            seed=self.seed,
            schedule=self.schedule,
            longest_slice=self.longest_slice,
            cache=CacheGeometry.parse(self.cache),
            strata=StrataPolicy.parse(self.strata),
            memory_bytes=MEMORY_BYTES,
            limit=self.limit,
            input=stdin,
            model=self.model,
            store_buffer=self.store_buffer,
            bus=self.bus,
        )


def run_plan(plan: Plan, folder: Path, *, timeout_s: float = 10.0) -> Findings:
    """Record as planned into `folder`, which must not exist, and examine the recording. Raises Broken."""
    expected = expectations().expectation(plan.program, plan.cores, plan.model)
    printed = bytearray()
    outcome = record(
        IMAGES / f"{plan.program}.elf", folder, X86_64, plan.options(expected.stdin), printed.extend
    )
    _judge(plan, expected, outcome, bytes(printed))
    return examine(folder, timeout_s=timeout_s)


def _judge(plan: Plan, expected: Any, outcome: Outcome, printed: bytes) -> None:
    end = outcome.end
    if plan.limit and end.reason == "limit":
        return
    if expected.fault is not None:
        if outcome.fault is None or outcome.fault.core != expected.fault.core:
            raise Broken(f"ended by {end.reason}, not by a fault of core {expected.fault.core}")
        return
    if outcome.fault is not None:
        raise Broken(f"the guest failed: {outcome.fault}")
    if end.exit_code is None or not expected.allows(end.exit_code, printed):
        raise Broken(f"ended by {end.reason}, exit code {end.exit_code}, printed {printed!r}")


@dataclass
class Campaign:
    """Plans run so far. failures: (plan, what is wrong)."""

    timeout_s: float = 10.0
    total: Findings = field(default_factory=Findings)
    by_program: dict[str, Findings] = field(default_factory=dict)
    failures: list[tuple[Plan, str]] = field(default_factory=list)

    def run(self, plan: Plan) -> bool:
        """Run one plan in a temporary folder; what fails is kept in `failures`."""
        folder = Path(tempfile.mkdtemp(prefix="corebraid-soak-"))
        try:
            found = run_plan(plan, folder / "rec", timeout_s=self.timeout_s)
        except (Broken, CorebraidError, ValueError, OverflowError, AssertionError) as error:
            self.failures.append((plan, f"{type(error).__name__}: {error}"))
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.total.add(found)
        self.by_program.setdefault(plan.program, Findings()).add(found)
        return True


_COLUMNS = (
    ("recordings", "recordings"),
    ("cores", "cores"),
    ("instructions", "instructions"),
    ("events", "events"),
    ("strata", "strata"),
    ("regions_legal", "legal"),
    ("regions_undecided", "undecided"),
    ("boundary", "boundary values"),
)


def table(campaign: Campaign) -> str:
    """Counts by program and in total, as text."""
    lines = [f"{'program':18}" + "".join(f"{title:>16}" for _, title in _COLUMNS)]
    for name, found in [*sorted(campaign.by_program.items()), ("total", campaign.total)]:
        lines.append(
            f"{name:18}" + "".join(f"{getattr(found, field_name):>16}" for field_name, _ in _COLUMNS)
        )
    return "\n".join(lines)


def plans(programs: list[str], cores: list[int], seeds: int, models: list[str]) -> list[Plan]:
    """Every program at every number of cores: seeds as `record` runs it, as many wild ones, as many with
    pages."""
    return [
        plan
        for seed in range(seeds)
        for model in models
        for n in cores
        for program in programs
        for plan in (
            Plan(program, n, seed, model=model),
            Plan.wild(program, n, seed, model),
            *([Plan.pages(program, n, seed)] if model == "sc" else []),
        )
    ]


def main() -> int:
    """Run the campaign; returns the exit status."""
    names = sorted(path.stem for path in IMAGES.glob("*.elf"))
    parser = argparse.ArgumentParser(description="Record, replay, order and judge every program.")
    parser.add_argument("--cores", default="1,2,4,8,16", help="numbers of cores, with commas between")
    parser.add_argument("--seeds", type=int, default=10, help="seeds for each program and number of cores")
    parser.add_argument("--programs", default=",".join(names), help="which programs, with commas between")
    parser.add_argument("--models", default="sc,tso", help="memory models, with commas between")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long; 0: run to the end")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for the solver, per region")
    chosen = parser.parse_args()
    campaign, begin = Campaign(chosen.timeout), time.monotonic()
    cores = [int(n) for n in chosen.cores.split(",")]
    todo = plans(chosen.programs.split(","), cores, chosen.seeds, chosen.models.split(","))
    for number, plan in enumerate(todo):
        if chosen.minutes and time.monotonic() - begin > 60 * chosen.minutes:
            print(f"stopped after {number} of {len(todo)} recordings", file=sys.stderr)
            break
        if not campaign.run(plan):
            print(f"FAILED {plan}\n       {campaign.failures[-1][1]}", flush=True)
    print(table(campaign))
    total, seconds = campaign.total, time.monotonic() - begin
    print(f"{total.certificates} certificates passed the checker, {total.truths} sealed truths are legal,")
    print(f"{len(campaign.failures)} recordings failed, {seconds:.0f} s")
    _write(campaign, seconds)
    return 1 if campaign.failures else 0


def _write(campaign: Campaign, seconds: float) -> None:
    out = ROOT / "bench" / "out"
    out.mkdir(parents=True, exist_ok=True)
    facts = {
        "total": asdict(campaign.total),
        "programs": {name: asdict(found) for name, found in sorted(campaign.by_program.items())},
        "failures": [{"plan": asdict(plan), "what": what} for plan, what in campaign.failures],
        "seconds": round(seconds, 1),
    }
    (out / "soak.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
