"""What a recording is, and what it takes on disk. Loads neither an emulator nor compiled kernels, but where a
guest failed and its call stack is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from corebraid.study.deadlocks import deadlock_lines
from corebraid.study.stacks import Stack, stack_at_end
from recorder.files.manifest import (
    ORDER_CERT,
    PROGRAM_ELF,
    SLICES_FOUND,
    Manifest,
    checkpoint_log,
    core_log,
    load,
)
from recorder.files.missing_order import missing_edges

#: As recorder/files/objects.py has it, which loads more than is needed here.
_OBJECTS = "objects"


@dataclass(frozen=True)
class Info:
    """A recording. sizes: bytes of its files that are there. instructions: of each core; of a recording whose
    recorder was killed, how far its log reaches, None where that cannot be read."""

    recording: Path
    manifest: Manifest
    sizes: dict[str, int]
    instructions: tuple[int | None, ...]

    @classmethod
    def of(cls, recording: Path) -> Info:
        """Of the recording in the directory `recording`. Raises FormatError."""
        manifest = load(recording)
        checkpoints = [checkpoint_log(core) for core in range(manifest.n_cores)]
        names = [
            *manifest.file_names(),
            *checkpoints,
            PROGRAM_ELF,
            *_objects(recording, manifest),
            ORDER_CERT,
            SLICES_FOUND,
        ]
        sizes = {name: size for name in names if (size := _size(recording / name)) is not None}
        reached = manifest.instructions if manifest.complete else tuple(_reached(recording, manifest))
        return cls(recording, manifest, sizes, tuple(reached))

    @property
    def ordered(self) -> bool:
        """Whether it has an order."""
        return ORDER_CERT in self.sizes

    @cached_property
    def stack(self) -> Stack | None:
        """The call stack of a guest that failed: to tell it takes the program's names."""
        return stack_at_end(self.recording, self.manifest)

    def cores(self) -> list[dict[str, object]]:
        """Each core as JSON."""
        return [
            _core(core, count, self.sizes.get(core_log(core))) for core, count in enumerate(self.instructions)
        ]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        manifest = self.manifest
        return {
            "recording": str(self.recording),
            "id": manifest.id.hex(),
            "complete": manifest.complete,
            "isa": manifest.isa,
            "program": asdict(manifest.program),
            "cores": self.cores(),
            "memory": manifest.memory,
            "guest": "linux" if manifest.linux else "firmware",
            "threads": manifest.totals.get("tasks"),
            "calls": manifest.totals.get("calls"),
            "bus": manifest.bus,
            "line": manifest.line,
            "cache": manifest.cache,
            "seed": manifest.seed,
            "schedule": manifest.schedule,
            "model": manifest.model,
            "strata": manifest.strata,
            "agents": list(manifest.agents),
            "options": manifest.options,
            "end": manifest.end.facts() if manifest.end else None,
            "stack": None if self.stack is None else self.stack.facts(),
            **({"waits": waits} if (waits := deadlock_lines(self.recording, manifest)) else {}),
            "totals": manifest.totals,
            "files": self.sizes,
            "ordered": self.ordered,
            "version": manifest.version,
            "missing_edges": missing_edges(manifest),
        }


def _objects(recording: Path, manifest: Manifest) -> list[str]:
    """The index of the files that a Linux program ran code of, and those files."""
    if not manifest.linux:
        return []
    folder = recording / _OBJECTS
    return [f"{_OBJECTS}.json", *(f"{_OBJECTS}/{path.name}" for path in sorted(folder.glob("*")))]


def _core(core: int, instructions: int | None, log_bytes: int | None) -> dict[str, object]:
    rate = round(log_bytes * 1000 / instructions, 3) if instructions and log_bytes is not None else None
    return {
        "core": core,
        "instructions": instructions,
        "log_bytes": log_bytes,
        "log_bytes_per_1000_instructions": rate,
    }


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _reached(recording: Path, manifest: Manifest) -> list[int | None]:
    """Where each core's log of an incomplete recording ends; None where it cannot be read."""
    from corebraid.base.errors import FormatError
    from recorder.files.frame import CORE, FileHeader, iter_frames

    counts: list[int | None] = []
    for core in range(manifest.n_cores):
        header = FileHeader(CORE, core, manifest.id, manifest.line, manifest.version)
        last: int | None = 0
        try:
            for frame, _ in iter_frames(recording / core_log(core), header, partial_tail=True):
                last = frame.last
        except FormatError:
            last = None
        counts.append(last)
    return counts
