"""The traces of a recording, as the solver reads them: cores replayed alone, agents from their log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emu.pages import host_memory
from recorder.reader import Recording, iter_agent_trace, load_image, strata
from recorder.replay import CoreReplay

Progress = Callable[[int, int], None]


class RecordingTraces:
    """Streams of events: cores from 0, then the agents. Nothing is kept but one chunk of each stream.

    Of a recording whose recorder was killed, only what precedes its last complete stratum.
    progress: called with (stream, instruction count) as replay goes on.
    """

    def __init__(self, recording: Recording, progress: Progress | None = None) -> None:
        self._recording, self._progress = recording, progress

    @property
    def n_streams(self) -> int:
        """Cores and one stream of agents."""
        return self._recording.manifest.n_cores + 1

    @property
    def memory_bytes(self) -> int:
        """Size of guest memory, bytes."""
        return self._recording.manifest.memory

    @cached_property
    def strata(self) -> NDArray[np.uint64]:
        """uint64 (strata, streams): each stream's instruction count at the cut."""
        return strata(self._recording)

    @property
    def has_final(self) -> bool:
        """Whether the recording was finished, so that `final` is memory at the end of the traces."""
        return not self._recording.killed

    def initial(self) -> NDArray[np.uint8]:
        """Memory before the first instruction: uint8[memory_bytes], a fresh copy."""
        return self._image("initial")

    def final(self) -> NDArray[np.uint8]:
        """Memory at the end: uint8[memory_bytes]. Raises FormatError when the recorder was killed."""
        return self._image("final")

    def _image(self, name: str) -> NDArray[np.uint8]:
        memory = host_memory(self.memory_bytes)
        load_image(self._recording, name, memory)
        return memory

    def chunks(self, stream: int) -> Iterator[NDArray[np.void]]:
        """A stream's events in program order, in chunks: EVENT[n]. Raises FormatError, Divergence."""
        for piece in self._pieces(stream):
            if self.has_final:
                kept = piece
            else:
                cut = self.strata[-1, stream] if len(self.strata) else np.uint64(0)
                kept = piece[piece["count"] < cut]
            if len(kept):
                yield kept
            if len(kept) < len(piece):
                return

    def _pieces(self, stream: int) -> Iterator[NDArray[np.void]]:
        if stream == self._recording.manifest.n_cores:
            return iter_agent_trace(self._recording)
        progress = self._progress
        report = None if progress is None else lambda count: progress(stream, count)
        return CoreReplay(self._recording, stream, traced=True).run(report)
