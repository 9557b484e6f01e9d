"""Recordings whose losses are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from losses_factory import EVIDENCE

from recorder.evidence.losses.codec import encode
from recorder.evidence.losses.log import iter_all_losses
from recorder.files.frame import FrameWriter
from recorder.files.manifest import MANIFEST
from recorder.files.reader import Recording


def rewrite(path: Path, change: Callable[[np.ndarray], np.ndarray | None]) -> Recording:
    """The recording with another stream, sound as a file and in the manifest."""
    opened = Recording.open(path)
    rows = np.concatenate(list(iter_all_losses(opened)))
    rows = rows[np.argsort(rows["core"], kind="stable")]
    changed = change(rows)
    rows = rows if changed is None else changed
    (path / EVIDENCE).unlink()
    log = FrameWriter(path / EVIDENCE, opened.header_of(EVIDENCE))
    log.append(encode(rows, opened.manifest.line), len(rows), 0, len(rows) - 1)
    log.close()
    manifest = replace(opened.manifest, files={**opened.manifest.files, EVIDENCE: log.facts()})
    (path / MANIFEST).write_bytes(manifest.render())
    return Recording.open(path)
