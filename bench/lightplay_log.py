"""What LightPlay's log costs: bytes against a log of the total order, and time to record."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
from numba import njit

from bench.programs import image
from bench.true_order import held_traces, in_true_order
from corebraid.base.rows.event import UNCACHED
from corebraid.base.varint import MAX_VARINT, put_varint
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.evidence.slices.log import iter_slices
from recorder.files.evidence_names import evidence_log
from recorder.files.reader import Recording, iter_evidence, iter_sealed_truth

_ONE, _THREE = np.uint64(1), np.uint64(3)


@njit(cache=True)
def mark_shared(rows, owner, shared):  # type: ignore[no-untyped-def]
    """Which accesses (EVENT (n,), in the order that ran) are to a word that another stream has touched."""
    for i in range(rows.size):
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        word = row.addr >> _THREE
        while word <= (row.addr + np.uint64(row.size) - _ONE) >> _THREE:
            mine = np.uint8(row.core + 1)
            if owner[word] == 0:
                owner[word] = mine
            elif owner[word] != mine:
                owner[word] = np.uint8(255)
                shared[i] = True
            word += _ONE


@njit(cache=True)
def encode_order(rows, seen, out):  # type: ignore[no-untyped-def]
    """A log of the total order: of each shared access its stream, and how many events of the stream lie
    between it and the one before. seen: uint64 (streams,), all 0. Returns the bytes used."""
    pos = 0
    for i in range(rows.size):
        pos = put_varint(out, pos, np.uint64(rows[i].core))
        pos = put_varint(out, pos, rows[i].seq - seen[rows[i].core])
        seen[rows[i].core] = rows[i].seq + _ONE
    return pos


@njit(cache=True)
def encode_runs(rows, out):  # type: ignore[no-untyped-def]
    """The same order as runs: a stream, and how many of its shared accesses come next. Returns the bytes
    used."""
    pos, i = 0, 0
    while i < rows.size:
        first = i
        while i < rows.size and rows[i].core == rows[first].core:
            i += 1
        pos = put_varint(out, pos, np.uint64(rows[first].core))
        pos = put_varint(out, pos, np.uint64(i - first))
    return pos


@dataclass(frozen=True)
class Sized:
    """Bytes of a log before and after compression, frame by frame."""

    raw: int
    stored: int

    @classmethod
    def of(cls, *parts: bytes) -> Sized:
        """Of a log whose parts are compressed each by itself."""
        return cls(sum(map(len, parts)), sum(map(compressed, parts)))

    def __add__(self, other: Sized) -> Sized:
        return Sized(self.raw + other.raw, self.stored + other.stored)


NOTHING = Sized(0, 0)


@dataclass(frozen=True)
class LogFacts:
    """One recording with slices. accesses: shared ones. log: of the slices; stored: their file. order: a log
    of the total order of the same accesses, which is all that a replay from the beginning needs; valued: and
    of their values; runs: the order as runs of one stream."""

    instructions: int
    accesses: int
    slices: int
    kept: int
    log: Sized
    order: Sized
    valued: Sized
    runs: Sized


def compressed(raw: bytes, frame: int = 1 << 18) -> int:
    """Bytes after compression, frame by frame."""
    return sum(
        len(lz4.block.compress(raw[k : k + frame], store_size=False)) for k in range(0, len(raw), frame)
    )


def log_facts(recording: Recording) -> LogFacts:
    """Sizes of both logs of the same run."""
    traces = held_traces(recording)
    ordered = in_true_order(traces, np.concatenate(list(iter_sealed_truth(recording))))
    shared = np.zeros(len(ordered), np.bool_)
    mark_shared(ordered, np.zeros(traces.memory_bytes // 8 + 1, np.uint8), shared)
    rows: Any = ordered[shared]
    out = np.empty(len(rows) * 2 * MAX_VARINT + 1, np.uint8)
    used = encode_order(rows, np.zeros(traces.n_streams, np.uint64), out)
    order, values = out[:used].tobytes(), np.ascontiguousarray(rows["new"]).tobytes()
    runs = out[: encode_runs(rows, out)].tobytes()
    tables = list(iter_slices(recording))
    return LogFacts(
        sum(recording.manifest.instructions),
        len(rows),
        sum(int(table.slices.sum()) for table in tables),
        sum(int(table.kept.sum()) for table in tables),
        Sized(
            sum(len(raw) for _, raw in iter_evidence(recording, "slices")),
            recording.manifest.files[evidence_log("slices")].bytes,
        ),
        Sized.of(order),
        Sized.of(order, values),
        Sized.of(runs),
    )


def record_seconds(name: str, size: str, cores: int, evidence: tuple[str, ...], rounds: int) -> float:
    """Least time of some recordings of a program."""
    best = float("inf")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
            options = RecordOptions(cores=cores, seed=1, evidence=evidence)
            capture = Capture(image(name, size), Path(folder) / "rec", X86_64, options, lambda _: None)
            with capture.writer:
                began = time.perf_counter()
                capture.run()
                best = min(best, time.perf_counter() - began)
    return best
