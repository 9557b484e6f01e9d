"""What of Stride's evidence a replay of cores needs beside linkages: where each fetched code, and digests of
what it accessed (docs/format.md, section 11.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from recorder.evidence.linkage.codec import CHECK, FETCH, REPLAYED, Head, Piece, iter_linkage
from recorder.files.evidence_names import LINKAGE
from recorder.files.reader import Recording


@dataclass(frozen=True)
class Steps:
    """Of one core. fetches: uint64[n, 4], the number of the event, the instruction, the address, words.
    checks: uint64[n, 2], accesses so far, their digest."""

    fetches: NDArray[np.uint64]
    checks: NDArray[np.uint64]


def read_steps(recording: Recording) -> tuple[Head, list[Steps]]:
    """How the evidence was recorded, and the steps of each core. Raises UsageError if a replay is not
    possible with it, FormatError."""
    if recording.killed:
        raise UsageError(
            "the recorder was killed, so that the logs end at different places",
            where=str(recording.path),
            remedy=Phrase("record again with ", Option("evidence", LINKAGE)),
        )
    n = recording.manifest.n_cores
    found: dict[tuple[int, int], list[NDArray[np.uint64]]] = {}
    head: Head | None = None
    for item in iter_linkage(recording):
        if isinstance(item, Head):
            head = item
        elif item.kind in (FETCH, CHECK):
            _keep(found, item)
    if head is None or not head.compressions & REPLAYED:
        raise UsageError(
            "the evidence was recorded by a version whose evidence cores cannot be replayed from",
            where=str(recording.path),
            remedy=Phrase("record again with ", Option("evidence", LINKAGE)),
        )
    return head, [Steps(_joined(found, FETCH, core, 4), _joined(found, CHECK, core, 2)) for core in range(n)]


def _keep(found: dict[tuple[int, int], list[NDArray[np.uint64]]], piece: Piece) -> None:
    found.setdefault((piece.kind, piece.stream), []).append(piece.table)


def _joined(
    found: dict[tuple[int, int], list[NDArray[np.uint64]]], kind: int, core: int, columns: int
) -> NDArray[np.uint64]:
    return np.concatenate([np.empty((0, columns), np.uint64), *found.get((kind, core), [])])
