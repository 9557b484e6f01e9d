"""The images that are measured, and recordings of them in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, Outcome, RecordOptions
from recorder.files.collectors import Collector
from recorder.files.manifest import Manifest
from recorder.files.reader import Recording

FIRMWARE = Path(__file__).resolve().parent.parent / "firmware"


def image(name: str, size: str = "") -> Path:
    """The image of a program. size: "" for the one in everyday use, "medium" or "large"."""
    return FIRMWARE / (f"x86_64-{size}" if size else "x86_64") / f"{name}.elf"


@dataclass(frozen=True)
class Clock:
    """The machine after each slice. instructions: over all cores, uint64 (n,). cycles: of the core that is
    furthest, uint64 (n,). downgrades: over all cores, uint64 (n,). latency: of each core at the end."""

    instructions: NDArray[np.uint64]
    cycles: NDArray[np.uint64]
    downgrades: NDArray[np.uint64]
    latency: NDArray[np.uint64]


def total_of(manifest: Manifest, name: str) -> int:
    """One of a manifest's totals, which are numbers."""
    value = manifest.totals[name]
    assert isinstance(value, int)
    return value


@dataclass(frozen=True)
class Recorded:
    """A recording that lasts as long as the `with` that made it."""

    recording: Recording
    outcome: Outcome
    clock: Clock

    def total(self, name: str) -> int:
        """One of the manifest's totals."""
        return total_of(self.outcome.manifest, name)


@contextmanager
def recorded(
    program: Path, options: RecordOptions, watchers: tuple[Collector, ...] = ()
) -> Iterator[Recorded]:
    """Record a program and watch the machine's clock. watchers: see `Capture`."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        capture = Capture(program, Path(folder) / "rec", X86_64, options, lambda _: None, watchers)
        rows = capture.machine.core_rows
        seen: list[tuple[int, int, int]] = []

        def watch(instructions: int) -> None:
            cycles = int((rows["count"] + rows["latency"]).max())
            seen.append((instructions, cycles, int(rows["downgrades"].sum())))

        with capture.writer:
            outcome = capture.run(watch)
        watch(int(rows["count"].sum()))
        series = np.array(seen, np.uint64)
        clock = Clock(series[:, 0], series[:, 1], series[:, 2], rows["latency"].copy())
        yield Recorded(Recording.open(Path(folder) / "rec"), outcome, clock)
