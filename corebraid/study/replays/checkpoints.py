"""Checkpoints of a recording's cores, made afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from corebraid.base.errors import CorebraidError
from corebraid.study.replays.in_processes import in_processes
from recorder.files.reader import Recording
from recorder.replay.checkpointing import CheckpointPolicy
from recorder.replay.making import Made, make_checkpoints


@dataclass(frozen=True)
class Checkpointed:
    """What was made, in order of cores."""

    recording: Path
    cores: list[Made]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {"recording": str(self.recording), "cores": [asdict(made) for made in self.cores]}


def checkpointed(
    recording: Recording, policy: CheckpointPolicy, jobs: int, progress: Callable[[int], None]
) -> Checkpointed:
    """Make the checkpoints of all cores, on up to `jobs` processes. progress: called with how many cores are
    done. Raises FormatError, Divergence."""
    made: list[Made] = []
    cores = range(recording.manifest.n_cores)
    with in_processes(partial(_make, recording.path, policy), cores, jobs) as source:
        for found in source:
            if isinstance(found, CorebraidError):
                raise found
            made.append(found)
            progress(len(made))
    return Checkpointed(recording.path, sorted(made, key=lambda one: one.core))


def _make(path: Path, policy: CheckpointPolicy, core: int) -> Made | CorebraidError:
    try:
        return make_checkpoints(Recording.open(path), core, policy)
    except CorebraidError as error:
        return error
