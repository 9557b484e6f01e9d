"""What evidence `losses` takes: its bytes beside the logs', and the time to record with it and without.

    python -m bench.loss_bytes [--cores 4,8] [--rounds 3]

All firmware that does not fail, in the everyday and the medium size, and Linux programs of ours. Prints and
writes bench/out/losses.md and .json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from corebraid.base.kernel_cache import use_kernel_cache

# Before numba is imported: kernels compiled from older sources must not be run.
use_kernel_cache()

from rich.console import Console  # noqa: E402

from bench.linux_soak import PROGRAMS, Plan, arguments_of, place  # noqa: E402
from bench.programs import FIRMWARE  # noqa: E402
from bench.report import Column, Table, publish  # noqa: E402
from isa.x86_64.linux import LINUX_X86_64  # noqa: E402
from isa.x86_64.registers import X86_64  # noqa: E402
from recorder.capture.firmware import RecordOptions, record  # noqa: E402
from recorder.capture.guest import LinuxOptions, guest_spec  # noqa: E402
from recorder.capture.linux import record_linux  # noqa: E402
from recorder.files.evidence_names import LOSSES, evidence_log  # noqa: E402
from recorder.files.manifest import AGENT_LOG, Manifest, core_log  # noqa: E402

LINUX = (
    "mutexes", "condvars", "thread_order", "threads64", "histogram", "semaphores", "rwlocks", "barriers",
    "ray_tracer", "spinlocks", "good_counter", "linear_regression", "pipes_poll", "pi_mutexes", "hostile",
)  # fmt: skip
#: These wait for input, or fail.
_LEFT_OUT = ("fault_", "input_echo")
_LIMIT = 8_000_000

Way = Callable[[Path, tuple[str, ...]], Manifest]


def firmware(image: Path, cores: int) -> Way:
    """How to record a firmware program."""

    def way(folder: Path, evidence: tuple[str, ...]) -> Manifest:
        options = RecordOptions(cores=cores, seed=1, limit=_LIMIT, evidence=evidence)
        return record(image, folder, X86_64, options, lambda _: None).manifest

    return way


def linux(name: str, cores: int) -> Way:
    """How to record a Linux program."""

    def way(folder: Path, evidence: tuple[str, ...]) -> Manifest:
        spec = guest_spec(PROGRAMS / name, name, arguments_of(name), 512 << 20, b"", LinuxOptions())
        options = replace(Plan(name, cores, 1).options(), limit=_LIMIT, evidence=evidence)
        done, _ = record_linux(spec, folder, X86_64, LINUX_X86_64, options, lambda _: None, lambda _: None)
        return done.manifest

    return way


def ways(cores: int) -> list[tuple[str, str, Way]]:
    """(group, name, how to record it) of all that is measured."""
    found: list[tuple[str, str, Way]] = []
    for folder in ("x86_64", "x86_64-medium"):
        for image in sorted((FIRMWARE / folder).glob("*.elf")):
            if not image.stem.startswith(_LEFT_OUT):
                group = "firmware" if folder == "x86_64" else "firmware, medium"
                found.append((group, image.stem, firmware(image, cores)))
    return found + [("Linux", name, linux(name, cores)) for name in LINUX]


def measure(way: Way, rounds: int) -> tuple[Manifest, float]:
    """A recording with losses, and the time that takes over the time without: the best of some rounds in
    which both take turns."""
    best, kept = {LOSSES: float("inf"), "": float("inf")}, None
    for number in range(rounds):
        for name in best:
            with place() as folder:
                began = time.perf_counter()
                manifest = way(folder / f"rec-{number}", (name,) if name else ())
                best[name] = min(best[name], time.perf_counter() - began)
                kept = manifest if name else kept
    assert kept is not None
    return kept, best[LOSSES] / best[""]


def loss_bytes(cores: tuple[int, ...], rounds: int) -> Table:
    """The table; a line for each program, and one for each group and for all."""
    columns = [Column("program"), Column("cores", ",d"), Column("losses", ",d"), Column("bytes", ",d")]
    columns += [Column("logs", ",d"), Column("percent", ".2f"), Column("time", ".2f")]
    notes = [
        "logs: bytes of all core-K.log and agent.log on disk. time: to record, over that without losses, the "
        f"best of {rounds} rounds in which both take turns."
    ]
    table = Table("losses", "Evidence losses: bytes beside the logs", columns, notes)
    sums: dict[str, list[int]] = {}
    for n in cores:
        for group, name, way in ways(n):
            manifest, ratio = measure(way, rounds)
            facts = manifest.files[evidence_log(LOSSES)]
            names = [*map(core_log, range(n)), AGENT_LOG]
            logs = sum(manifest.files[log].bytes for log in names)
            table.add(
                f"{group}: {name}", n, facts.records, facts.bytes, logs, 100 * facts.bytes / logs, ratio
            )
            for key in (group, "all"):
                total = sums.setdefault(key, [0, 0, 0])
                for k, number in enumerate((facts.records, facts.bytes, logs)):
                    total[k] += number
    for key, (records, taken, logs) in sums.items():
        table.add(f"{key}, in total", None, records, taken, logs, 100 * taken / logs, None)
    return table


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(prog="python -m bench.loss_bytes", description=__doc__)
    parser.add_argument("--cores", default="4,8")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    cores = tuple(int(part) for part in chosen.cores.split(","))
    publish("losses", [loss_bytes(cores, chosen.rounds)], Console())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
