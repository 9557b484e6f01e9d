"""The soak campaign of Linux guests: record every program again and again, and hold each recording to all it
promises.

    python bench/linux_soak.py [--programs mutexes,jit] [--cores 1,2,4,8] [--seeds 10] [--models sc,tso]
                               [--minutes 60] [--plain]

Of each recording: the guest did what firmware/linux/expected.json allows; every core replays bit-exactly,
with and without a trace; the sealed truth is a legal order; an order is found; its certificate passes the
checker, once more from the file. Prints a line for each program, writes bench/out/linux_soak.json, and exits
with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corebraid.base.memory import ADDRESS_SPACE

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from corebraid.base.kernel_cache import use_kernel_cache  # noqa: E402

use_kernel_cache()

import numpy as np  # noqa: E402

from bench.true_order import Broken  # noqa: E402
from emu.bus.cache import CacheGeometry  # noqa: E402
from emu.bus.names import MESI  # noqa: E402
from isa.x86_64.linux import LINUX_X86_64  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.guest import LinuxOptions, guest_spec  # noqa: E402
from recorder.capture.linux import record_linux  # noqa: E402
from recorder.capture.options import Outcome, RecordOptions  # noqa: E402
from recorder.capture.strata_policy import StrataPolicy  # noqa: E402
from recorder.files.evidence_names import DEFAULT_EVIDENCE  # noqa: E402
from recorder.files.json_fields import Scalar  # noqa: E402
from recorder.files.manifest import ORDER_CERT  # noqa: E402
from recorder.files.reader import Recording, iter_sealed_truth  # noqa: E402
from recorder.replay.core import replay_core  # noqa: E402
from recorder.replay.traces import RecordingTraces  # noqa: E402
from solver.check.checker import check_slices  # noqa: E402
from solver.passes.answers import Options  # noqa: E402
from solver.passes.order import order_recording  # noqa: E402
from solver.regions.problem import Verdict  # noqa: E402

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
EXPECTED: dict[str, Any] = json.loads((PROGRAMS.parent / "expected.json").read_text())
#: Instructions after which a program that never ends is stopped.
_FOREVER = 300_000
_NEVER_END = ("loop_forever",)
_SMALL_MEMORY = {"alloc_forever": 64 << 20}
_MEMORY = 512 << 20
#: Reasons of an end, and the exit code that the command line gives them.
_FAILED = {"fault": 3, "deadlock": 3}


@dataclass(frozen=True)
class Plan:
    """What to record, and how."""

    program: str
    cores: int
    seed: int
    schedule: str = "random"
    longest_slice: int = 10_000
    strata: str = "cycles:100000"
    cache: str = "unbounded"
    model: str = "sc"
    store_buffer: int = 16
    evidence: tuple[str, ...] = DEFAULT_EVIDENCE
    evidence_options: Mapping[str, Scalar] = field(default_factory=dict)
    bus: str = MESI

    @classmethod
    def wild(cls, program: str, cores: int, seed: int, model: str = "sc") -> Plan:
        """Unusual slices, caches, schedules, strata and store buffers, drawn from the seed."""
        draw = random.Random(f"{program}/{cores}/{seed}/{model}")
        return cls(
            program,
            cores,
            seed,
            draw.choice(["random", "random", "round-robin", "pct:3", "chaos"]),
            draw.choice([50, 200, 1000, 5000]),
            draw.choice(["cycles:20000", "cycles:300000", "downgrades:50", "downgrades:500", "none"]),
            draw.choice(["unbounded", "unbounded", "1k:2:32", "2k:2:64", "512:1:16", "32k:4:256"]),
            model,
            draw.choice([1, 2, 8, 64]),
        )

    def options(self) -> RecordOptions:
        """As the recorder takes them."""
        return RecordOptions(
            evidence=self.evidence,
            evidence_options=dict(self.evidence_options),
            cores=self.cores,
            seed=self.seed,
            schedule=self.schedule,
            longest_slice=self.longest_slice,
            cache=CacheGeometry.parse(self.cache),
            strata=StrataPolicy.parse(self.strata),
            memory_bytes=ADDRESS_SPACE,
            limit=_FOREVER if self.program in _NEVER_END else 0,
            model=self.model,
            store_buffer=self.store_buffer,
            bus=self.bus,
        )


@dataclass
class Ran:
    """A recording that was made, and what the guest printed."""

    outcome: Outcome
    printed: bytes
    said: bytes


def arguments_of(program: str, seed: int = 1) -> tuple[str, ...]:
    """What a program is given; some of it depends on the seed."""
    if program == "fuzz_calls":
        return ("sandboxed", str(seed))
    if program == "dlopen_tls":
        return (str(PROGRAMS / "tls_module.so"),)
    return tuple(EXPECTED[program]["args"])


def record_plan(plan: Plan, folder: Path, **more: Any) -> Ran:
    """Record as planned into `folder`, which must not exist. more: for `LinuxOptions`."""
    entry = EXPECTED[plan.program]
    more.setdefault("environment", tuple(f"{k}={v}" for k, v in entry.get("env", {}).items()))
    spec = guest_spec(
        PROGRAMS / plan.program,
        plan.program,
        arguments_of(plan.program, plan.seed),
        _SMALL_MEMORY.get(plan.program, _MEMORY),
        b"",
        LinuxOptions(**more),
    )
    printed, said = bytearray(), bytearray()
    outcome, _ = record_linux(spec, folder, X86_64, LINUX_X86_64, plan.options(), printed.extend, said.extend)
    return Ran(outcome, bytes(printed), bytes(said))


# -- judging ---------------------------------------------------------------------------------------------


def judge(program: str, ran: Ran) -> None:
    """Raise Broken unless the guest did what it may."""
    entry, end = EXPECTED[program], ran.outcome.end
    code = _FAILED.get(end.reason, end.exit_code)
    allowed = [{**entry, **entry.get("recorder", {})}]
    if "failing" in entry:
        failing = {**entry, **entry["failing"]}
        allowed.append({**failing, "exit": 3} if failing.get("deadlock") else failing)
    if not any(_fits(one, code, ran.printed) for one in allowed):
        why = ran.outcome.fault or end.text
        raise Broken(f"ended by {end.reason}, exit code {code}, {why}: {ran.printed!r} {ran.said!r}")


def _fits(entry: dict[str, Any], code: int | None, printed: bytes) -> bool:
    if code != entry["exit"]:
        return False
    if "stdout_ends" in entry:
        return printed.endswith(entry["stdout_ends"].encode())
    pattern = re.escape(entry["stdout"]).replace("<number>", r"\d+")
    return re.fullmatch(pattern.encode(), printed) is not None


@dataclass
class Findings:
    """Counts over one recording, or many. regions_*: by what the solver answered."""

    recordings: int = 0
    cores: int = 0
    instructions: int = 0
    events: int = 0
    legal: int = 0
    undecided: int = 0
    seconds: float = 0.0

    def add(self, other: Findings) -> None:
        """Add another's counts."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


def examine(path: Path, *, truth: bool = True, order: bool = True, timeout_s: float = 5.0) -> Findings:
    """Hold the recording at `path` to its promises. Raises Broken or CorebraidError."""
    recording = Recording.open(path)
    found = Findings(recordings=1, cores=recording.manifest.n_cores)
    found.instructions = sum(recording.manifest.instructions)
    for core in range(found.cores):
        result = replay_core(recording, core)
        if not result.complete or result.count != recording.manifest.instructions[core]:
            raise Broken(f"core {core} replayed {result.count} instructions, not to its end")
    if truth:
        slices = (
            (rows["stream"].astype(np.int64), rows["end"].astype(np.uint64))
            for rows in iter_sealed_truth(recording)
        )
        found.events = check_slices(RecordingTraces(recording), slices).events
    if order:
        _order(recording, timeout_s, found)
    return found


def _order(recording: Recording, timeout_s: float, found: Findings) -> None:
    from corebraid.study.certificates import check

    path = recording.path / ORDER_CERT
    result = order_recording(
        RecordingTraces(recording), path, recording.manifest.id, Options(timeout_s=timeout_s)
    )
    verdicts = Counter(region.verdict for region in result.regions)
    found.legal, found.undecided = verdicts[Verdict.LEGAL], verdicts[Verdict.UNDECIDED]
    if verdicts[Verdict.ILLEGAL]:
        bad = next(region.region for region in result.regions if region.verdict is Verdict.ILLEGAL)
        raise Broken(f"the solver calls region {bad} illegal, but it ran")
    report = check(recording)
    if found.events and report.events + report.unchecked_events != found.events:
        raise Broken(f"the certificate has {report.events} events, not {found.events}")


# -- the campaign ----------------------------------------------------------------------------------------


@contextmanager
def place() -> Iterator[Path]:
    """A directory of its own, the current one meanwhile."""
    before, folder = os.getcwd(), tempfile.mkdtemp(prefix="corebraid-soak-")
    os.chdir(folder)
    try:
        yield Path(folder)
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Campaign:
    """Plans run so far. failures: (plan, what is wrong)."""

    timeout_s: float = 5.0
    by_program: dict[str, Findings] = field(default_factory=dict)
    failures: list[tuple[Plan, str]] = field(default_factory=list)

    def run(self, plan: Plan) -> bool:
        """Run one plan in a temporary directory; what fails is kept in `failures`."""
        begin = time.monotonic()
        with place() as folder:
            try:
                ran = record_plan(plan, folder / "rec")
                judge(plan.program, ran)
                found = examine(folder / "rec", timeout_s=self.timeout_s)
            except (Exception, Broken) as error:
                self.failures.append((plan, f"{type(error).__name__}: {error}"))
                return False
        found.seconds = time.monotonic() - begin
        self.by_program.setdefault(plan.program, Findings()).add(found)
        return True

    def failed(self, program: str) -> int:
        """Recordings of a program that failed."""
        return sum(plan.program == program for plan, _ in self.failures)


def plans(programs: list[str], cores: list[int], seeds: range, models: list[str], plain: bool) -> list[Plan]:
    """Every program at every number of cores: seeds as `record` runs it, and as many wild ones."""
    found = [
        plan
        for seed in seeds
        for model in models
        for n in cores
        for program in programs
        for plan in (Plan(program, n, seed, model=model), Plan.wild(program, n, seed, model))
    ]
    return found[::2] if plain else found


def table(campaign: Campaign) -> str:
    """A line for each program, as text."""
    names = list(asdict(Findings()))
    lines = [f"{'program':20}{'failed':>8}" + "".join(f"{name:>14}" for name in names)]
    total = Findings()
    for program in sorted({*campaign.by_program, *(plan.program for plan, _ in campaign.failures)}):
        found = campaign.by_program.get(program, Findings())
        total.add(found)
        lines.append(_line(program, campaign.failed(program), found))
    return "\n".join([*lines, _line("total", len(campaign.failures), total)])


def _line(name: str, failed: int, found: Findings) -> str:
    values = [round(value, 1) for value in asdict(found).values()]
    return f"{name:20}{failed:>8}" + "".join(f"{value:>14,}" for value in values)


def main() -> int:
    """Run the campaign; returns the exit status."""
    parser = argparse.ArgumentParser(description="Record, replay, order and judge every Linux program.")
    parser.add_argument("--programs", default=",".join(EXPECTED), help="which programs, with commas between")
    parser.add_argument("--cores", default="1,2,4,8", help="numbers of cores, with commas between")
    parser.add_argument("--seeds", type=int, default=10, help="seeds for each program and number of cores")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--models", default="sc,tso", help="memory models, with commas between")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long; 0: run to the end")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for the solver, per region")
    parser.add_argument("--plain", action="store_true", help="only as `record` runs a program")
    parser.add_argument("--shuffle", action="store_true", help="in another order")
    chosen = parser.parse_args()
    campaign, begin = Campaign(chosen.timeout), time.monotonic()
    cores = [int(n) for n in chosen.cores.split(",")]
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    todo = plans(chosen.programs.split(","), cores, seeds, chosen.models.split(","), chosen.plain)
    if chosen.shuffle:
        random.Random(chosen.first_seed).shuffle(todo)
    for number, plan in enumerate(todo):
        if chosen.minutes and time.monotonic() - begin > 60 * chosen.minutes:
            print(f"stopped after {number} of {len(todo)} recordings", file=sys.stderr)
            break
        if not campaign.run(plan):
            print(f"FAILED {plan}\n       {campaign.failures[-1][1]}", flush=True)
    print(table(campaign))
    print(f"{len(campaign.failures)} recordings failed, {time.monotonic() - begin:.0f} s")
    _write(campaign)
    return 1 if campaign.failures else 0


def _write(campaign: Campaign) -> None:
    out = ROOT / "bench" / "out"
    out.mkdir(parents=True, exist_ok=True)
    facts = {
        "programs": {name: asdict(found) for name, found in sorted(campaign.by_program.items())},
        "failures": [{"plan": asdict(plan), "what": what} for plan, what in campaign.failures],
    }
    (out / "linux_soak.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
