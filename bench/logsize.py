"""Bytes of log by what they are for, as the paper counts them: program input, strata, and our digests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corebraid.base.rows.record import DIGEST, MISS, STRATUM
from recorder.files.codec import encode
from recorder.files.reader import Recording, iter_core_records


@dataclass(frozen=True)
class LogBytes:
    """Bytes over all cores. miss: miss records; data: of them, what was received. other: the rest of the
    program input log (inputs, context headers, ends). strata, digests: those records. disk: all core logs as
    files, compressed."""

    miss: int
    data: int
    other: int
    strata: int
    digests: int
    disk: int

    @property
    def input(self) -> int:
        """The paper's program input log."""
        return self.miss + self.other


def log_bytes(recording: Recording) -> LogBytes:
    """Encode the records of each purpose by themselves, uncompressed, frame by frame."""
    line, cores = recording.manifest.line, range(recording.manifest.n_cores)
    sums, data = np.zeros(4, np.int64), 0
    for core in cores:
        for rows, blob in iter_core_records(recording, core):
            kind = rows["kind"]
            data += int(rows["size"][kind == MISS].sum(dtype=np.int64))
            marks = [kind == MISS, ~np.isin(kind, (MISS, STRATUM, DIGEST)), kind == STRATUM, kind == DIGEST]
            sums += [len(encode(rows[mark], blob, line)) for mark in marks]
    disk = sum(recording.core_log_path(core).stat().st_size for core in cores)
    miss, other, strata, digests = (int(total) for total in sums)
    return LogBytes(miss, data, other, strata, digests, disk)


def strata_bytes(recording: Recording, cuts: list[int]) -> int:
    """Bytes of the STRATUM records of all cores if only the strata `cuts` had been taken."""
    total = 0
    for core in range(recording.manifest.n_cores):
        marks = [rows[rows["kind"] == STRATUM] for rows, _ in iter_core_records(recording, core)]
        kept = np.concatenate(marks)[cuts]
        kept["value"] = np.arange(len(kept))
        total += len(encode(kept, np.zeros(0, np.uint8), recording.manifest.line))
    return total
