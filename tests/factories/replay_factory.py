"""Recordings of which nothing is left but what Stride's replayer needs, and its evidence altered."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from corebraid.base.rows.record import CONTEXT, DIGEST, MISS, RECEIVED
from recorder.evidence.linkage.codec import Head, LinkageWriter, iter_linkage
from recorder.files.codec import encode
from recorder.files.evidence_names import LINKAGE, STREAMS, evidence_log
from recorder.files.frame import CORE, FrameWriter
from recorder.files.manifest import AGENT_LOG, core_log
from recorder.files.reader import Recording, iter_core_records

_CARRYING = (DIGEST, CONTEXT)
_KEPT = ("initial.img", evidence_log(LINKAGE), AGENT_LOG)


def stripped(recording: Recording, directory: Path) -> Recording:
    """A copy that has first memory, the evidence, the agents' log, and of the cores' logs what is no miss
    record; the program itself and all else are gone."""
    directory.mkdir()
    for name in _KEPT:
        if (recording.path / name).exists():
            shutil.copy(recording.path / name, directory / name)
    manifest = recording.manifest
    files = dict(manifest.files)
    for core in range(manifest.n_cores):
        writer = FrameWriter(directory / core_log(core), recording.header(CORE, core))
        for rows, blob in iter_core_records(recording, core):
            kept, bytes_of = _without_misses(rows, blob)
            if len(kept):
                raw = encode(kept, bytes_of, manifest.line)
                writer.append(raw, len(kept), int(kept["count"][0]), int(kept["count"][-1]))
        writer.close()
        files[core_log(core)] = writer.facts()
    (directory / "manifest.json").write_bytes(replace(manifest, files=files).render())
    return Recording.open(directory)


def _without_misses(rows: Any, blob: Any) -> tuple[Any, Any]:
    """Rows of a core's log that are no misses, and their bytes without those of others."""
    kept = rows[(rows["kind"] != MISS) & (rows["kind"] != RECEIVED)].copy()
    pieces, used = [np.zeros(0, np.uint8)], 0
    for row in kept:
        if row["kind"] in _CARRYING:
            pieces.append(blob[int(row["offset"]) : int(row["offset"]) + int(row["size"])])
            row["offset"] = used
            used += int(row["size"])
        else:
            row["offset"] = used
    return kept, np.concatenate(pieces)


def altered(
    recording: Recording, directory: Path, kind: int, change: Callable[[int, Any], None]
) -> Recording:
    """A copy in which `change` has had its way with each table of a kind of the evidence: (stream, uint64[n,
    k]). Its files are sound."""
    shutil.copytree(recording.path, directory)
    path = directory / evidence_log(LINKAGE)
    path.unlink()
    frames = FrameWriter(path, recording.header(STREAMS[LINKAGE].kind))
    writer: LinkageWriter | None = None
    for item in iter_linkage(recording):
        if isinstance(item, Head):
            writer = LinkageWriter(frames, item)
            continue
        assert writer is not None
        table = item.table.copy()
        if item.kind == kind:
            change(item.stream, table)
        writer.write(item.kind, item.stream, table)
    frames.close()
    files = {**recording.manifest.files, path.name: frames.facts()}
    (directory / "manifest.json").write_bytes(replace(recording.manifest, files=files).render())
    return Recording.open(directory)
