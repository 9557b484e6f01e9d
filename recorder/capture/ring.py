"""A ring: of a long run, what came last. Written interval by interval, the oldest of which go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from corebraid.base.clock import working_time
from corebraid.base.removal import remove_tree
from recorder.capture.intervals import Joining, drop_interval, dropped, held, place_of, write_base
from recorder.capture.ring_policy import RingPolicy
from recorder.files.checkpoints import CheckpointWriter
from recorder.files.collectors import EvidenceWriter
from recorder.files.end import End
from recorder.files.json_fields import Scalar
from recorder.files.manifest import INTERVALS, Manifest
from recorder.files.rebase import Base
from recorder.files.writer import RecordingWriter, new_directory

Rows = npt.NDArray[np.void]
Pages = Iterable[tuple[int, npt.NDArray[np.uint8]]]


@dataclass(frozen=True)
class _Interval:
    """place: its directory. base: where it begins. at: that, as the policy measures. totals: what had been
    counted by then."""

    place: Path
    base: Base
    at: int
    totals: Mapping[str, Scalar]


class RingWriter:
    """Writes a recording as a `RecordingWriter` does, of the last intervals alone. What it is given counts
    from the run's beginning."""

    def __init__(self, directory: Path, manifest: Manifest, policy: RingPolicy) -> None:
        self._directory, self._manifest, self._policy = directory, manifest, policy
        self._intervals: deque[_Interval] = deque()
        self._began, self._number = working_time(), 0
        self._joining: Joining | None = None
        new_directory(directory)
        with ExitStack() as undone:
            undone.callback(remove_tree, directory)
            (directory / INTERVALS).mkdir()
            self._lock = ExitStack()
            self._lock.enter_context(held(directory))
            undone.callback(self._lock.close)
            self._current = self._begin(Base.beginning(manifest.n_cores), {})
            undone.pop_all()

    @property
    def manifest(self) -> Manifest:
        """What the recording is, as far as it was known when it began."""
        return self._manifest

    @property
    def begins(self) -> Base:
        """Where what is kept begins."""
        return self._intervals[0].base

    def __enter__(self) -> RingWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- intervals -----------------------------------------------------------------------------------

    def _measure(self, base: Base) -> int:
        """How far a run is, as the policy measures."""
        return int((working_time() - self._began) * 1000) if self._policy.timed else sum(base.counts)

    def due(self, base: Base) -> bool:
        """Whether a new interval is to begin, here at a stratum."""
        return self._measure(base) - self._intervals[-1].at >= self._policy.interval

    def _begin(self, base: Base, totals: Mapping[str, Scalar]) -> RecordingWriter:
        place = place_of(self._directory, self._number)
        writer = RecordingWriter.create(place, self._manifest)
        write_base(place, self._manifest, base)
        self._intervals.append(_Interval(place, base, self._measure(base), totals))
        self._number += 1
        self._back = base.back
        return writer

    def turn(self, base: Base, totals: Mapping[str, Scalar], pages: Pages) -> None:
        """The interval ends, and a new one begins. base: where. totals: what has been counted so far. pages:
        of memory, as of an image. Raises FormatError."""
        self._current.seal()
        self._current = self._begin(base, totals)
        self._current.write_image("initial", pages)
        now = self._intervals[-1].at
        while len(self._intervals) > 1 and now - self._intervals[1].at >= self._policy.amount:
            drop_interval(self._intervals.popleft().place)

    # -- what a recording is made of -----------------------------------------------------------------

    def append_core(self, core: int, rows: Rows, blob: npt.NDArray[np.uint8]) -> None:
        """See `RecordingWriter.append_core`."""
        self._current.append_core(core, self._back.of_core(core, rows), blob)

    def append_agent(self, rows: Rows) -> None:
        """See `RecordingWriter.append_agent`."""
        self._current.append_agent(self._back.of_agents(rows))

    def append_truth(self, rows: Rows) -> None:
        """See `RecordingWriter.append_truth`."""
        self._current.append_truth(self._back.of_truth(rows))

    def evidence(self, name: str) -> EvidenceWriter:
        """Of the interval that is being written."""
        return self._current.evidence(name)

    def checkpoints(self, core: int) -> CheckpointWriter:
        """A ring has none. Raises ValueError."""
        raise ValueError(f"checkpoints of core {core} in a ring")

    def write_image(self, which: Literal["initial", "final"], pages: Pages) -> None:
        """See `RecordingWriter.write_image`; the final one ends the last interval."""
        if which == "initial":
            self._current.write_image(which, pages)
            return
        self._joined().writer.write_image(which, pages)

    def _joined(self) -> Joining:
        if self._joining is None:
            self._current.close()
            self._joining = Joining(self._directory, self._intervals[0].place)
            for interval in self._intervals:
                self._joining.add(interval.place, last=interval is self._intervals[-1])
        return self._joining

    def finish(self, end: End, instructions: Iterable[int], totals: Mapping[str, Scalar]) -> Manifest:
        """See `RecordingWriter.finish`. totals: of the whole run; of those that were counted where the first
        interval begins, what came behind is kept."""
        joining, first = self._joined(), self._intervals[0]
        counts = [count - before for count, before in zip(instructions, first.base.counts, strict=True)]
        if end.core is not None and end.count is not None:
            end = replace(end, count=end.count - first.base.counts[end.core])
        kept = dict(totals)
        for name, before in first.totals.items():
            now = kept[name]
            assert isinstance(now, int)
            assert isinstance(before, int)
            kept[name] = now - before
        manifest = joining.writer.finish(end, counts, {**kept, **dropped(first.base)})
        joining.settle()
        self._lock.close()
        return manifest

    def close(self) -> None:
        """Close the files. Without `finish`, what is there can be put together (`join_killed`)."""
        self._current.close()
        if self._joining is not None:
            self._joining.writer.close()
        self._lock.close()

    def discard(self) -> None:
        """Remove the whole directory: nothing has run yet that it could tell of."""
        self.close()
        remove_tree(self._directory)
