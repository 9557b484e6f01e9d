"""Checkpoints of a recording that has none, or others: made by replaying its cores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from corebraid.base.errors import FormatError, unless_short
from recorder.files.checkpoints import CheckpointWriter, checkpoint_header, checkpoint_path
from recorder.files.one_step import in_one_step
from recorder.files.reader import Recording
from recorder.replay.checkpointing import CheckpointPolicy, CoreCheckpoints
from recorder.replay.core import CoreReplay

_ROOM = "make room; the checkpoints that were there are as they were"


@dataclass(frozen=True)
class Made:
    """The checkpoints of a core. strata: that its replay has passed, instructions: that it has retired."""

    core: int
    checkpoints: int
    bytes: int
    strata: int
    instructions: int


class _Checkpointed(CoreReplay):
    """A replay that writes checkpoints on its way."""

    def __init__(
        self,
        recording: Recording,
        core: int,
        policy: CheckpointPolicy,
        create: Callable[[], CheckpointWriter],
    ) -> None:
        super().__init__(recording, core, paged=True)
        assert self._pages is not None
        self.made = CoreCheckpoints(self._core.core, self._pages, recording.manifest.line, policy, create)

    def _cut(self, stratum: int) -> None:
        self.made.at_stratum(stratum)

    def _forgotten(self) -> None:
        self.made.forgotten()


def make_checkpoints(recording: Recording, core: int, policy: CheckpointPolicy) -> Made:
    """Write the checkpoints of a core, in place of those that are there. Killed, it leaves those as they
    were.

    Raises FormatError (damage; the disk is full), Divergence.
    """
    path = checkpoint_path(recording, core)
    try:
        with in_one_step(path) as partial:
            made = _make(recording, core, policy, partial)
    except OSError as error:
        unless_short(error)
        remedy = "make room, or let the recording's directory be written to"
        raise FormatError(f"cannot be written ({error.strerror})", where=str(path), remedy=remedy) from None
    return made


def _make(recording: Recording, core: int, policy: CheckpointPolicy, path: Path) -> Made:
    path.unlink(missing_ok=True)
    writer = CheckpointWriter(path, checkpoint_header(recording, core), _ROOM)
    with closing(writer):
        replay = _Checkpointed(recording, core, policy, lambda: writer)
        for _ in replay.run():
            pass
    made, result = replay.made, replay.result
    return Made(core, made.written, made.stored, result.strata, result.count)
