"""Recordings with many handovers, and which intervals of them are replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import corebraid
from bench.soak import IMAGES
from corebraid.base.hold_places import WITH_AGENTS
from corebraid.study.replays import keeping
from recorder.files.reader import Recording
from recorder.replay.contested import CONTESTED
from recorder.replay.finished import FinishedReplays
from recorder.replay.handovers import at_checkpoints
from recorder.replay.interval import Interval
from recorder.replay.traces import RecordingTraces


def traces_of(recording: Recording, rows: str = CONTESTED, holds: int = WITH_AGENTS) -> RecordingTraces:
    return RecordingTraces(recording, rows=rows, holds=holds, handovers=at_checkpoints(recording))


def record_radix(path: Path, **options: Any) -> Recording:
    options = {"strata": "cycles:3000", "checkpoint": 4000, "limit": 60_000, **options}
    corebraid.record(IMAGES / "radix.elf", path, cores=3, **options)
    return Recording.open(path)


@contextmanager
def left_behind() -> Iterator[None]:
    """What commands have replayed stays where it is, as if they were killed at their end."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FinishedReplays, "remove", lambda _: None)
        for module in ("recorder.replay.finished", "corebraid.study.replays.unfinished"):
            patched.setattr(f"{module}.remove_left", lambda _: None)
        yield


def replayed_parts(monkeypatch: pytest.MonkeyPatch) -> list[Interval]:
    """Those that are replayed from now on, by this process."""
    found, plain = list[Interval](), keeping.replay_and_keep

    def replay(recording: Recording, part: Interval, *rest: Any) -> Any:
        found.append(part)
        return plain(recording, part, *rest)

    monkeypatch.setattr(keeping, "replay_and_keep", replay)
    return found
