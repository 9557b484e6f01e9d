"""Recordings with losses for the tests, and what they say, core by core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from cli_factory import FIRMWARE
from evidence_factory import record_with

from bench.linux_soak import PROGRAMS, Plan, arguments_of
from emu.bus.cache import CacheGeometry
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.linux import record_linux
from recorder.evidence.losses.log import LOSS, iter_losses
from recorder.files.reader import Recording

EVIDENCE = "evidence-losses.log"
Loss = tuple[int, int, int, int]


def firmware(directory: Path, name: str, cache: str = "unbounded", **options: Any) -> Recording:
    """A firmware program, with losses. options: of `RecordOptions`."""
    chosen = {"cores": 4, "evidence": ("losses",), **options}
    return record_with(FIRMWARE / f"{name}.elf", directory, cache=CacheGeometry.parse(cache), **chosen)


def linux(directory: Path, name: str, *, limit: int = 1_500_000, **plan: Any) -> Recording:
    """A Linux program of ours, with losses. plan: fields of `Plan`."""
    chosen = Plan(name, **{"cores": 3, "seed": 1, **plan})
    spec = guest_spec(PROGRAMS / name, name, arguments_of(name), 512 << 20, b"", LinuxOptions())
    options = replace(chosen.options(), evidence=("losses",), limit=limit)
    record_linux(spec, directory, X86_64, LINUX_X86_64, options, lambda _: None, lambda _: None)
    return Recording.open(directory)


def losses_of(recording: Recording) -> list[list[Loss]]:
    """What each core lost: (count, address of the line, way, strata that had been cut)."""
    found = []
    for core in range(recording.manifest.n_cores):
        rows = np.concatenate([np.zeros(0, LOSS), *iter_losses(recording, core)])
        found.append(
            list(zip(*(rows[name].tolist() for name in ("count", "line", "way", "stratum")), strict=True))
        )
    return found
