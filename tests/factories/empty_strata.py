"""A recording with strata in which nothing runs: another's, with a run of them set before its first
instruction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import RECORD, STRATUM
from recorder.evidence.losses.codec import encode
from recorder.evidence.losses.log import iter_all_losses
from recorder.files.agent_codec import AGENT_OP, MARK
from recorder.files.evidence_names import LOSSES
from recorder.files.manifest import PROGRAM_ELF
from recorder.files.reader import (
    Recording,
    iter_agent_rows,
    iter_core_records,
    iter_image,
    iter_sealed_truth,
)
from recorder.files.writer import RecordingWriter

Rows = NDArray[np.void]


def with_empty_strata(recording: Recording, directory: Path, n: int) -> Recording:
    """Write `recording` again, with `n` strata before its first instruction, all checksums right.

    recording: whole, of firmware, of model sc, with no evidence but losses.
    """
    manifest = recording.manifest
    with RecordingWriter.create(directory, manifest) as writer:
        (directory / PROGRAM_ELF).write_bytes((recording.path / PROGRAM_ELF).read_bytes())
        writer.write_image("initial", _pages(recording, "initial"))
        for core in range(manifest.n_cores):
            for number, (rows, blob) in enumerate(iter_core_records(recording, core)):
                writer.append_core(core, _later(rows, n) if number else _begun(rows, n), blob)
        marks = np.zeros(n, AGENT_OP)
        marks["kind"], marks["stratum"] = MARK, np.arange(n)
        writer.append_agent(marks)
        for rows in iter_agent_rows(recording):
            moved = rows.copy()
            moved["stratum"] += np.uint32(n)
            writer.append_agent(moved)
        for rows in iter_sealed_truth(recording):
            writer.append_truth(rows)
        if LOSSES in manifest.evidence:
            _losses(recording, writer, n)
        writer.write_image("final", _pages(recording, "final"))
        assert manifest.end is not None
        totals = {**manifest.totals, "strata": int(manifest.totals["strata"]) + n}
        writer.finish(manifest.end, manifest.instructions, totals)
    return Recording.open(directory)


def _pages(recording: Recording, which: str) -> list[tuple[int, NDArray[np.uint8]]]:
    return [(at, np.frombuffer(page, np.uint8)) for at, page in iter_image(recording, which)]


def _later(rows: Rows, n: int) -> Rows:
    moved = rows.copy()
    moved["value"] += np.where(rows["kind"] == STRATUM, n, 0).astype(np.uint64)
    return moved


def _begun(rows: Rows, n: int) -> Rows:
    """The first frame's rows: the strata follow the context that its core begins with."""
    marks = np.zeros(n, RECORD)
    marks["kind"], marks["value"] = STRATUM, np.arange(n)
    return np.concatenate([rows[:1], marks, _later(rows[1:], n)])


def _losses(recording: Recording, writer: RecordingWriter, n: int) -> None:
    """The count of a loss is of instructions and strata (docs/format.md, section 11)."""
    first = 0
    for rows in iter_all_losses(recording):
        moved = rows.copy()
        moved["count"] += np.uint64(n)
        last = first + len(rows) - 1
        writer.evidence(LOSSES).append(encode(moved, recording.manifest.line), len(rows), first, last)
        first = last + 1
