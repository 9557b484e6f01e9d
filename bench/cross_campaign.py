"""The cross-check campaign: programs are recorded with all evidence, again and again; engines compare notes.

    python -m bench.cross_campaign [--cores 2,4,8] [--seeds 10] [--programs uts,ring] [--minutes 60]

Each recording: `corebraid crosscheck` finds no disagreement, every order passes the checker, isolated replays
from the miss log and from the value log agree, and a program of remote procedure calls that is executed again
does the same. Prints totals, and exits with 1 if anything disagreed; a recording that failed stays where it
is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from corebraid.base.kernel_cache import use_kernel_cache

# Before numba is imported: kernels compiled from older sources must not be run.
use_kernel_cache()

from bench.programs import FIRMWARE  # noqa: E402
from bench.report import OUT  # noqa: E402
from corebraid.base.errors import CorebraidError  # noqa: E402
from corebraid.study.engines import ENGINES, evidence_engine, ordering_engines, whole_runs  # noqa: E402
from corebraid.study.subjects import objects_of  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.firmware import RecordOptions, record  # noqa: E402
from recorder.capture.strata_policy import StrataPolicy  # noqa: E402
from recorder.files.evidence_names import GROUPS, STREAMS, settled  # noqa: E402
from recorder.files.reader import Recording  # noqa: E402
from recorder.replay.traces import RecordingTraces  # noqa: E402
from solver.passes.answers import Options  # noqa: E402
from solver.passes.crosscheck import CONTRADICTS, Contender, crosscheck  # noqa: E402

IMAGES = FIRMWARE / "x86_64"
#: Programs that end before they share anything.
_LEFT_OUT = ("fault_",)
#: Instructions after which a recording is cut: programs that spin may go on for long under bad schedules.
_LIMIT = 3_000_000
#: How turns, strata and variables are chosen, by seed.
_SLICES = (300, 1000, 5000, 10_000)
_STRATA = (5_000, 20_000, 100_000)


def names() -> list[str]:
    """All programs that run to an end."""
    return sorted(path.stem for path in IMAGES.glob("*.elf") if not path.stem.startswith(_LEFT_OUT))


def options_of(program: Path, cores: int, seed: int) -> RecordOptions:
    """How the run of this seed is recorded."""
    group = GROUPS[seed % len(GROUPS)]
    return RecordOptions(
        cores=cores,
        seed=seed,
        longest_slice=_SLICES[seed % len(_SLICES)],
        strata=StrataPolicy(cycles=_STRATA[seed % len(_STRATA)]),
        limit=_LIMIT,
        memory_bytes=16 << 20,
        evidence=tuple(STREAMS),
        evidence_options=settled(STREAMS, {"group": group}, cores),
        symbols=objects_of(program) if group == "symbol" else (),
    )


def one(
    program: Path, cores: int, seed: int, timeout_s: float, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Record and cross-check once: counts, and what disagreed."""
    record(program, folder, X86_64, options_of(program, cores, seed), lambda _: None)
    recording = Recording.open(folder)
    engines = [Contender("auto", Options("auto", timeout_s))]
    for name in (row.name for row in ordering_engines() if row.stream):
        engines.append(Contender(name, Options(name, timeout_s, evidence=evidence_engine(recording, name))))
    found = crosscheck(RecordingTraces(recording), engines)
    wholes = whole_runs(recording, ENGINES)
    counts: Counter[str] = Counter(recordings=1)
    for row in found.rows:
        if not row.events and row.agrees != CONTRADICTS:
            counts[f"{row.engine} empty regions"] += 1
            continue
        counts[f"{row.engine} regions"] += 1
        counts[f"{row.engine} {row.verdict.value}"] += 1
        counts[f"{row.engine} {row.agrees}"] += 1
        counts[f"{row.engine} checked"] += row.checked
    for whole in wholes:
        for key, value in whole.facts.items():
            if isinstance(value, int):
                counts[f"{whole.engine} {key}"] += value
    wrong = found.disagreements + [f"engine {whole.engine}: {why}" for whole in wholes for why in whole.wrong]
    return counts, wrong


def main() -> int:
    """The campaign; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.cross_campaign", description=__doc__)
    parser.add_argument("--cores", default="2,4,8")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--programs", default=",".join(names()))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--region-timeout", type=float, default=10.0)
    asked = parser.parse_args()
    began, total, failures = time.monotonic(), Counter[str](), 0
    temporary = Path(tempfile.mkdtemp(prefix="corebraid-cross-"))
    for seed in range(asked.seeds):
        for program in asked.programs.split(","):
            for cores in (int(text) for text in asked.cores.split(",")):
                if time.monotonic() - began > 60 * asked.minutes:
                    continue
                folder = temporary / f"{program}-{cores}-{seed}"
                try:
                    path = IMAGES / f"{program}.elf"
                    counts, wrong = one(path, cores, seed, asked.region_timeout, folder)
                except CorebraidError as error:
                    counts, wrong = Counter(recordings=1), [error.line()]
                total += counts
                for line in wrong:
                    print(f"{folder}: {line}", flush=True)
                failures += bool(wrong)
                if not wrong:
                    shutil.rmtree(folder)
        print(f"seed {seed}: {total['recordings']} recordings, {failures} that disagree", flush=True)
    if not failures:
        shutil.rmtree(temporary)
    for name, count in sorted(total.items()):
        print(f"{name:<28} {count:>12,}")
    OUT.mkdir(exist_ok=True)
    (OUT / "cross.json").write_text(
        json.dumps({"failures": failures, **total}, indent=1, sort_keys=True) + "\n"
    )
    print(f"{failures} recordings disagree; {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
