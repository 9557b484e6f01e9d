"""Bytes of every system's log of one and the same run: as recorded, or by a recorder that watches it again.

A recording has the streams of MICRO, Stride, LightPlay and OPR. The others, and Stride with the compressions
of its paper alone, are handed the events of the replayed cores in the order of the sealed truth, slice by
slice, which is what they would have been handed as it ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.linkage_baselines import Counter, Global, Leap
from bench.logsize import log_bytes
from bench.programs import total_of
from bench.rerun import HASHES, Rerun
from bench.true_order import held_traces
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.record import DIGEST, MISS, STRATUM
from emu.bus.cache import CacheGeometry
from recorder.evidence.linkage.codec import PAPERS
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.files.codec import encode
from recorder.files.collectors import Collector, Guest, Rows
from recorder.files.evidence_names import LINKAGE, LOSSES, OPR, SLICES, evidence_log
from recorder.files.manifest import Manifest
from recorder.files.reader import Recording, iter_core_records, iter_sealed_truth
from solver.regions.traces import MemoryTraces

#: The systems, by the name of their column.
MICRO_PAPER, MICRO, STRIDE, STRIDE_PAPER = "MICRO, paper", "MICRO, ours", "Stride", "Stride, paper"
LEAP, GLOBAL, LIGHTPLAY, OPR_ALL = "LEAP", "Global", "LightPlay", "OPR"
RERUN, RERUN_BLOOM = "ReRun, exact", "ReRun, filters"
SYSTEMS = (
    MICRO_PAPER, MICRO, STRIDE_PAPER, STRIDE, LEAP, GLOBAL, LIGHTPLAY, OPR_ALL, RERUN, RERUN_BLOOM,
)  # fmt: skip
_WORDS_OF_A_PAGE = 512


class SparseLeap(Leap):
    """LEAP in an address space that is mostly empty: at the end only pages that were touched count."""

    def __init__(self, guest: Guest) -> None:
        super().__init__(guest, "word")
        self._pages: set[int] = set()

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        last = rows["addr"] + rows["size"] - np.uint64(1)
        for end in (rows["addr"], last):
            self._pages.update(np.unique(end // np.uint64(8 * _WORDS_OF_A_PAGE)).tolist())
        super().take(stream, rows)

    def open_variables(self) -> NDArray[np.int64]:
        """See `Leap`."""
        found = [np.zeros(0, np.int64)]
        for page in sorted(self._pages):
            first = page * _WORDS_OF_A_PAGE
            found.append(first + np.flatnonzero(self._n[first : first + _WORDS_OF_A_PAGE]))
        return np.concatenate(found)


def turns(traces: MemoryTraces, recording: Recording) -> Iterator[tuple[int, Rows]]:
    """(stream, its EVENT[n] since its last turn) in the order that ran. Opens the sealed truth."""
    at = [0] * traces.n_streams
    agents = recording.manifest.n_cores
    for truth in iter_sealed_truth(recording):
        for stream, end in truth.tolist():
            rows, upto = traces.rows[stream], end
            if stream != agents:
                upto = int(np.searchsorted(rows["count"], np.uint64(end), side="left"))
            if upto > at[stream]:
                yield stream, rows[at[stream] : upto]
                at[stream] = upto


@dataclass(frozen=True)
class Logs:
    """One run. accesses: data accesses of all cores. bytes: of each system's own log, by `SYSTEMS`. inputs:
    of what no system computes: results of calls, time, context headers. kernel: of the accesses of the Linux
    kernel. cores: of the cores' logs."""

    accesses: int
    bytes: dict[str, int]
    inputs: int = 0
    kernel: int = 0
    cores: int = 0

    def beside(self, system: str) -> int:
        """Bytes that a system needs besides its own log. MICRO's has all. LightPlay's search takes accesses
        and values from the cores' logs; with the others programs run again, which takes inputs."""
        if system in (MICRO, MICRO_PAPER):
            return 0
        return self.kernel + (self.cores if system == LIGHTPLAY else self.inputs)

    def per_thousand(self, system: str, beside: bool = False) -> float | None:
        """Bytes for a thousand accesses; None where there are none. beside: with what it needs besides."""
        whole = self.bytes[system] + (self.beside(system) if beside else 0)
        return 1000 * whole / self.accesses if self.accesses else None


def watch_again(recording: Recording, watchers: list[Collector]) -> None:
    """Hand the watchers the whole run, as it ran."""
    for stream, rows in turns(held_traces(recording), recording):
        for watcher in watchers:
            watcher.take(stream, rows)
    for watcher in watchers:
        watcher.finish()


def guest_of(manifest: Manifest) -> Guest:
    """What a watcher of a recorded run is told."""
    return Guest(manifest.n_cores, manifest.line, 1, host_memory(manifest.memory))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def kernel_bytes(recording: Recording) -> int:
    """Of the log of what agents did: of a Linux program, its kernel."""
    return _size(recording.path / "agent.log")


def core_bytes(recording: Recording) -> int:
    """Of the cores' logs."""
    return sum(_size(recording.core_log_path(core)) for core in range(recording.manifest.n_cores))


def input_bytes(recording: Recording) -> int:
    """Of the records in the cores' logs that are no misses, strata or digests, in frames of their own."""
    counter, line = Counter(), recording.manifest.line
    for core in range(recording.manifest.n_cores):
        for rows, blob in iter_core_records(recording, core):
            kept = rows[~np.isin(rows["kind"], (MISS, STRATUM, DIGEST))]
            if len(kept):
                counter.append(encode(kept, blob, line), len(kept), 0, 0)
    return counter.stored


def micro_bytes(recording: Recording) -> int:
    """Of the files that replay and `order` need: the cores' logs, that of agents, and of losses."""
    losses = _size(recording.path / evidence_log(LOSSES))
    return core_bytes(recording) + kernel_bytes(recording) + losses


def logs_of(recording: Recording) -> Logs:
    """The logs of a recording of lines with evidence linkage, slices and opr. Opens the sealed truth."""
    guest, stride = guest_of(recording.manifest), Counter()
    leap, everything = SparseLeap(guest), Global(guest)
    # As the recording's cores, these caches push nothing out.
    exact, bloom = (Rerun(guest, CacheGeometry.parse("unbounded"), hashes) for hashes in (0, HASHES))
    watch_again(recording, [leap, everything, exact, bloom, LinkageCollector(guest, stride, "word", PAPERS)])
    micro = log_bytes(recording)
    files = {name: (recording.path / evidence_log(name)).stat().st_size for name in (LINKAGE, SLICES, OPR)}
    found = {
        MICRO_PAPER: micro.input + micro.strata,
        MICRO: micro_bytes(recording),
        STRIDE_PAPER: stride.stored,
        STRIDE: files[LINKAGE],
        LEAP: leap.counter.stored,
        GLOBAL: everything.counter.stored,
        LIGHTPLAY: files[SLICES],
        OPR_ALL: files[OPR],
        RERUN: exact.bytes,
        RERUN_BLOOM: bloom.bytes,
    }
    accesses = total_of(recording.manifest, "accesses")
    return Logs(accesses, found, input_bytes(recording), kernel_bytes(recording), core_bytes(recording))
