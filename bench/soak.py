"""The soak campaign: record every program again and again, and hold each recording to all it promises.

    python bench/soak.py [--cores 1,2,4,8,16] [--seeds 10] [--programs uts,ring] [--minutes 60]

Of each recording: the guest did what firmware/expected.json allows; every core replays bit-exactly, with
and without a trace; an order is found and its certificate passes the checker; the sealed truth is a legal
order; and memory at every stratum, worked out without solving (MICRO 2009, 4.2), is what it really was.
The last is judged by a naive walk in this file that shares no code with the solver. Prints a table and
totals, writes bench/out/soak.json, and exits with 1 if anything failed.
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

from isa.kernel_cache import use_kernel_cache  # noqa: E402

use_kernel_cache()

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from emu.cache import CacheGeometry  # noqa: E402
from isa.errors import CorebraidError  # noqa: E402
from isa.x86_64 import X86_64  # noqa: E402
from recorder.capture import Outcome, RecordOptions, record  # noqa: E402
from recorder.event import EVENT, UNCACHED  # noqa: E402
from recorder.reader import Recording, iter_sealed_truth  # noqa: E402
from recorder.replay import replay_core  # noqa: E402
from recorder.strata_policy import StrataPolicy  # noqa: E402
from recorder.traces import RecordingTraces  # noqa: E402
from solver.boundary import Forward  # noqa: E402
from solver.checker import check_slices  # noqa: E402
from solver.filters import unfiltered  # noqa: E402
from solver.granules import find_granules  # noqa: E402
from solver.order import Options, order_recording  # noqa: E402
from solver.problem import Verdict  # noqa: E402
from solver.regions import iter_regions  # noqa: E402
from solver.traces import MemoryTraces  # noqa: E402

IMAGES = ROOT / "firmware" / "x86_64"
MEMORY_BYTES = 8 << 20
#: Programs that hang when a core is starved for long: a lock's holder must get its turn.
_SPINNERS = ("spin_mcs", "spin_ticket", "ring")


class Broken(Exception):
    """A recording that does not keep a promise."""


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


# -- the truth, walked naively ---------------------------------------------------------------------------


def held_traces(recording: Recording) -> MemoryTraces:
    """Every stream's events, by a traced replay of each core."""
    lazy = RecordingTraces(recording)
    rows = []
    for stream in range(lazy.n_streams):
        pieces = list(lazy.chunks(stream))
        rows.append(np.concatenate(pieces) if pieces else _no_events())
    return MemoryTraces(rows, lazy.strata, lazy.initial(), lazy.final())


def _no_events() -> NDArray[np.void]:
    return np.zeros(0, EVENT)


def in_true_order(traces: MemoryTraces, truth: NDArray[np.void]) -> NDArray[np.void]:
    """All events in the order that really ran."""
    at = [0] * traces.n_streams
    pieces = []
    for stream, rows in enumerate(traces.rows):
        counts = rows["count"].astype(np.int64)
        if len(counts) and (np.diff(counts) < 0).any():
            raise Broken(f"the counts of stream {stream} run backwards")
    for stream, end in truth.tolist():
        rows = traces.rows[stream]
        upto = int(np.searchsorted(rows["count"], np.uint64(end), side="left"))
        pieces.append(rows[at[stream] : upto])
        at[stream] = max(at[stream], upto)
    for stream, rows in enumerate(traces.rows):
        if at[stream] != len(rows):
            raise Broken(f"stream {stream} has {len(rows) - at[stream]} events after its last slice")
    return np.concatenate(pieces) if pieces else _no_events()


@dataclass
class NaiveMemory:
    """Bytes of memory, changed event by event."""

    content: bytearray

    def apply(self, events: NDArray[np.void]) -> None:
        """Each event's old bytes must be what memory holds. Raises Broken."""
        memory = self.content
        cached = events[(events["flags"] & UNCACHED) == 0]
        columns = [cached[name].tolist() for name in ("addr", "size", "old", "new")]
        for number, (address, size, old, new) in enumerate(zip(*columns, strict=True)):
            found = memory[address : address + size]
            if found != old.to_bytes(8, "little")[:size]:
                raise Broken(f"the truth: {cached[number]} finds {found.hex()} (low byte first)")
            memory[address : address + size] = new.to_bytes(8, "little")[:size]

    def values(self, addresses: NDArray[Any], sizes: NDArray[Any]) -> list[int]:
        """The little-endian values at the addresses."""
        return [
            int.from_bytes(self.content[a : a + n], "little")
            for a, n in zip(addresses.tolist(), sizes.tolist(), strict=True)
        ]


def compare_boundaries(traces: MemoryTraces, truth: NDArray[np.void]) -> int:
    """Memory at every stratum as the solver's forward pass has it, against the truth.

    Returns how many values were compared. Raises Broken at the first difference.
    """
    ordered = in_true_order(traces, truth)
    if (np.diff(ordered["stratum"].astype(np.int64)) < 0).any():
        raise Broken("in the true order an event of a later stratum precedes one of an earlier")
    memory = NaiveMemory(bytearray(traces.initial()))
    forward = Forward(traces.initial())
    compared = 0
    for region in iter_regions(traces):
        granules = find_granules(region)
        problem, _ = unfiltered(region, granules)
        bounded, delta = forward.advance(region, granules, problem)
        compared += _same(region.index, "initial", memory, bounded.address, bounded.size, bounded.initial)
        low, high = np.searchsorted(ordered["stratum"], [region.index, region.index + 1], side="left")
        memory.apply(ordered[low:high])
        compared += _same(region.index, "final", memory, bounded.address, bounded.size, bounded.final)
        words = delta.word * np.uint64(8)
        compared += _same(region.index, "final word", memory, words, np.full(len(words), 8), delta.after)
    if memory.content != bytearray(traces.final()):
        raise Broken("memory after the true order is not the final image")
    return compared


def _same(
    region: int, end: str, memory: NaiveMemory, address: NDArray[Any], size: NDArray[Any], value: NDArray[Any]
) -> int:
    true = memory.values(address, size)
    for a, expected, found in zip(address.tolist(), true, value.tolist(), strict=True):
        if expected != found:
            raise Broken(f"region {region}: {end} value at {a:#x} is {expected:#x}, computed {found:#x}")
    return len(true)


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
            Path(folder) / "order.cert",
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

    @classmethod
    def wild(cls, program: str, cores: int, seed: int) -> Plan:
        """Unusual slices, caches, schedules and strata, drawn from the seed."""
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
        )

    def options(self, stdin: bytes) -> RecordOptions:
        """As the recorder takes them."""
        return RecordOptions(
            cores=self.cores,
            seed=self.seed,
            schedule=self.schedule,
            longest_slice=self.longest_slice,
            cache=CacheGeometry.parse(self.cache),
            strata=StrataPolicy.parse(self.strata),
            memory_bytes=MEMORY_BYTES,
            limit=self.limit,
            input=stdin,
        )


def run_plan(plan: Plan, folder: Path, *, timeout_s: float = 10.0) -> Findings:
    """Record as planned into `folder`, which must not exist, and examine the recording. Raises Broken."""
    expected = expectations().expectation(plan.program, plan.cores)
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


def plans(programs: list[str], cores: list[int], seeds: int) -> list[Plan]:
    """Every program at every number of cores: seeds as `record` runs it, and as many wild ones."""
    return [
        plan
        for seed in range(seeds)
        for n in cores
        for program in programs
        for plan in (Plan(program, n, seed), Plan.wild(program, n, seed))
    ]


def main() -> int:
    """Run the campaign; returns the exit status."""
    names = sorted(path.stem for path in IMAGES.glob("*.elf"))
    parser = argparse.ArgumentParser(description="Record, replay, order and judge every program.")
    parser.add_argument("--cores", default="1,2,4,8,16", help="numbers of cores, with commas between")
    parser.add_argument("--seeds", type=int, default=10, help="seeds for each program and number of cores")
    parser.add_argument("--programs", default=",".join(names), help="which programs, with commas between")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long; 0: run to the end")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for the solver, per region")
    chosen = parser.parse_args()
    campaign, begin = Campaign(chosen.timeout), time.monotonic()
    todo = plans(chosen.programs.split(","), [int(n) for n in chosen.cores.split(",")], chosen.seeds)
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
