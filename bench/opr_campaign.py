"""`python -m bench.opr_campaign`: every program on several numbers of cores, by many seeds, replayed from
value logs and from miss records, access by access."""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path

from corebraid.base.kernel_cache import use_kernel_cache

# Before numba is imported: kernels compiled from older sources must not be run.
use_kernel_cache()

from rich.console import Console  # noqa: E402

from bench.programs import FIRMWARE, image  # noqa: E402
from corebraid.base.errors import Divergence  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.firmware import RecordOptions, record  # noqa: E402
from recorder.capture.strata_policy import StrataPolicy  # noqa: E402
from recorder.evidence.opr.log import read_opr  # noqa: E402
from recorder.files.reader import Recording  # noqa: E402
from recorder.replay.value_check import compare_replays  # noqa: E402
from solver.evidence.opr.inference import replay_group  # noqa: E402

CORES, SEEDS, LIMIT = (2, 4, 8), 10, 1_500_000
_SLICES = (50, 300, 3000)


def programs() -> list[str]:
    """All that do not need mailboxes."""
    names = sorted(path.stem for path in (FIRMWARE / "src").glob("*.c"))
    return [name for name in names if not name.startswith("rpc")]


def one_run(name: str, cores: int, seed: int, folder: Path) -> int:
    """Record a program; every core a member, or every second one. Returns the accesses compared. Raises
    Divergence at the first difference, or if an event order had to be given up."""
    rset = ",".join(map(str, range(0, cores, 1 + seed % 2)))
    options = RecordOptions(
        cores=cores,
        seed=seed,
        longest_slice=_SLICES[seed % len(_SLICES)],
        strata=StrataPolicy(cycles=20_000),
        limit=LIMIT,
        evidence=("opr",),
        evidence_options={"rset": rset},
    )
    record(image(name), folder, X86_64, options, lambda _: None)
    recording = Recording.open(folder)
    log = read_opr(recording)
    compared = sum(compare_replays(recording, log, core) for core in log.members)
    result = replay_group(recording, log, relaxed=bool(seed % 2))
    if given_up := sum(member.given_up for member in result.members):
        raise Divergence("event orders that keep each other waiting", expected=0, found=given_up)
    return compared


def main(console: Console) -> int:
    """Run all; returns how many differed."""
    runs = accesses = wrong = 0
    for seed in range(SEEDS):
        for cores in CORES:
            for name in programs():
                with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
                    try:
                        accesses += one_run(name, cores, seed, Path(folder) / "rec")
                    except Divergence as error:
                        wrong += 1
                        console.print(f"{name}, {cores} cores, seed {seed}: {error.line()}", highlight=False)
                runs += 1
            gc.collect()
        console.print(
            f"seed {seed}: {runs:,} runs, {accesses:,} accesses compared, {wrong} differ", highlight=False
        )
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(Console()) else 0)
