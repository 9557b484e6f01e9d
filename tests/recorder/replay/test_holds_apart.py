"""Orders of holds in which nobody has a page while another has it alone, of a program of locks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import corebraid
from bench.soak import IMAGES
from corebraid.base.errors import OrderError
from corebraid.base.hold_places import NO_HOLDS, WITH_AGENTS
from corebraid.base.wording import said
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.contested import CONTESTED
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.check.checker import check_slices
from solver.passes import answers


def slices_of(recording: Recording) -> Iterator[tuple[NDArray[Any], NDArray[np.uint64]]]:
    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype(np.int64), rows["end"].astype(np.uint64)


def record_uts(path: Path) -> Recording:
    """Locks: cores read a page while others take it alone and leave it as it was."""
    corebraid.record(IMAGES / "uts.elf", path, cores=4)
    return Recording.open(path)


def test_nobody_has_a_page_while_another_has_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_uts(tmp_path / "rec")
    corebraid.order(recording, jobs=1)
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert (head.contested, head.holds) == (True, WITH_AGENTS)
    assert corebraid.check_order(recording).events < 10_000
    # What ran has no such thing, and values alone do not keep it away: the checker names it.
    traces = RecordingTraces(recording, rows=CONTESTED, holds=WITH_AGENTS)
    assert check_slices(traces, slices_of(recording)).events
    monkeypatch.setattr(answers, "keep_apart", lambda problem, solution, solve, place: solution)
    corebraid.order(recording, jobs=1, fresh=True)
    with pytest.raises(OrderError, match="has a page alone, and another holds it"):
        corebraid.check_order(recording)


def test_where_holds_cannot_be_kept_apart_accesses_are_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OrderError("found no order")

    recording = record_uts(tmp_path / "rec")
    monkeypatch.setattr(answers, "keep_apart", fail)
    told = list[str]()
    corebraid.order(recording, jobs=1, note=lambda text: told.append(said(text)))
    assert told == ["accesses to contested pages were ordered, not holds of pages: found no order"]
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert (head.contested, head.holds) == (True, NO_HOLDS)
    assert corebraid.check_order(recording).events > 10_000
