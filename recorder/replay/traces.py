"""The traces of a recording, as the solver reads them: cores replayed alone, agents from their log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corebraid.base.hold_places import NO_HOLDS, with_places
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.record import PAGE_LINE
from emu.native.state import PAGE_SHIFT
from recorder.evidence.losses.log import iter_losses
from recorder.files.constraints import LOSSES, TENURES, VALUES
from recorder.files.reader import (
    Recording,
    agent_marks,
    iter_agent_trace,
    iter_core_records,
    load_image,
    strata,
)
from recorder.replay.contested import ALL, CONTESTED, MARKED, RECEIVED, Contested
from recorder.replay.core import CoreReplay
from recorder.replay.handovers import NO_HANDOVERS, Handovers
from recorder.replay.kept_rows import KeptRows, Kind
from recorder.replay.meetings import meeting_rows, with_meetings
from recorder.replay.page_lines import Places, clear_pages, fill_places, lines_lost, lines_missed
from recorder.replay.spells import no_spells
from recorder.replay.store_streams import SideBySide

Progress = Callable[[int, int], None]


class RecordingTraces:
    """Streams of events: cores from 0, then the agents; under TSO a core's stream has no buffered stores,
    and the cores' stores follow as streams of their own (`recorder.replay.store_streams`). Nothing is kept
    but a chunk each.

    Of a recording whose recorder was killed, only what precedes its last complete stratum.
    progress: called with (stream, instruction count) as replay goes on. constraints: what an order is to obey
    (`recorder.files.constraints`). rows: which of the cores' accesses are events
    (`recorder.replay.contested`); not ALL only of a recording that tells what is contested. kept: rows of
    earlier replays, which spare others. holds: of which pages holds stand for accesses
    (`recorder.replay.holds`, `corebraid.base.hold_places`); if of any, memory goes on behind its end.
    handovers: those that are asked for (`recorder.replay.handovers`). meetings: whether there is a row, too,
    where a core met an agent (`recorder.replay.meetings`), by which more is proved; not under TSO.
    """

    def __init__(
        self,
        recording: Recording,
        progress: Progress | None = None,
        *,
        constraints: str = VALUES,
        rows: str = ALL,
        kept: KeptRows | None = None,
        holds: int = NO_HOLDS,
        handovers: Handovers = NO_HANDOVERS,
        meetings: bool = False,
    ) -> None:
        self._recording, self._progress, self._asked = recording, progress, constraints
        self._rows, self._kept_rows, self._by_holds = rows, kept, holds
        self._handovers, self._meetings = handovers, meetings and not self.buffered

    def showing(
        self, rows: str, *, holds: int = NO_HOLDS, handovers: Handovers = NO_HANDOVERS
    ) -> RecordingTraces:
        """The same traces with other accesses as events. What was found out of the recording so far is
        shared."""
        other = copy(self)
        other._rows = rows
        if (holds, handovers) != (self._by_holds, self._handovers):
            other._by_holds, other._handovers = holds, handovers
            other.__dict__.pop("pages", None)
        return other

    def with_kept(self, kept: KeptRows) -> RecordingTraces:
        """The same traces, where rows of earlier replays spare others."""
        other = copy(self)
        other._kept_rows = kept
        return other

    @property
    def kind(self) -> Kind:
        """What the cores' rows are."""
        return Kind(self._rows, self._by_holds, self._handovers)

    @property
    def handovers(self) -> Handovers:
        """Of each core the regions that begin with a handover, if rows depend on that. Raises FormatError."""
        return NO_HANDOVERS if self._rows == ALL else self.pages.handovers

    @property
    def contested(self) -> bool:
        """Whether accesses to pages that are a stream's own in their region are left out."""
        return self._rows in (CONTESTED, RECEIVED)

    @property
    def marked(self) -> bool:
        """Whether they are there, and marked."""
        return self._rows == MARKED

    @property
    def holds(self) -> int:
        """Of which pages holds are rows, in place of accesses."""
        return NO_HOLDS if self._rows == ALL else self._by_holds

    @property
    def n_streams(self) -> int:
        """Cores, agents, and under TSO the stores of the cores."""
        return self._recording.manifest.n_streams

    @property
    def buffered(self) -> int:
        """Cores whose stores are streams of their own, the last ones; 0 under SC."""
        manifest = self._recording.manifest
        return manifest.n_streams - manifest.n_cores - 1

    @property
    def memory_bytes(self) -> int:
        """Size of guest memory, bytes, with the places of holds behind it."""
        memory = self._recording.manifest.memory
        return with_places(memory) if self.holds else memory

    @property
    def line_bytes(self) -> int:
        """Bytes in a line of the cores' caches, or in one of a page, 0 if tenures are not to be used."""
        if self._asked == VALUES:
            return 0
        manifest = self._recording.manifest
        return PAGE_LINE if manifest.paged else manifest.line

    @property
    def misses_prove_writes(self) -> bool:
        """Whether every miss but the first on a line proves a foreign write."""
        return self._recording.manifest.misses_prove_writes

    @property
    def agents_say_owned(self) -> bool:
        """Whether agents' accesses say that a core had the line alone."""
        return self._recording.manifest.agents_say_owned

    @property
    def constraints(self) -> str:
        """What an order obeys: what was asked for, as far as the recording has it."""
        told = LOSSES in self._recording.manifest.evidence
        return TENURES if self._asked == LOSSES and not told else self._asked

    @property
    def whole_pages(self) -> bool:
        """Whether lines come and go by pages, so that a core has one from its record on, accessed or not."""
        return self._recording.manifest.paged

    @property
    def untold(self) -> NDArray[np.uint64]:
        """Pages of whose bytes not all changes are rows, ascending: of which holds are told for a time."""
        return np.unique(self.pages.spells.page) if self.holds else np.zeros(0, np.uint64)

    @property
    def unbounded(self) -> bool:
        """Whether a core keeps every line that nobody takes from it, and loses none for another's sake."""
        manifest = self._recording.manifest
        return manifest.cache == "unbounded" and not manifest.paged

    @property
    def has_losses(self) -> bool:
        """Whether the cores have noted what they lost, and an order may use that."""
        return self.constraints == LOSSES

    def losses(self, core: int) -> Iterator[NDArray[np.void]]:
        """What a core lost, in that order, frame by frame: LOSS[n]."""
        losses = iter_losses(self._recording, core, self.strata)
        if not self._recording.manifest.paged:
            return losses
        return (lines_lost(rows, self._places) for rows in losses)

    def records(self, core: int) -> Iterator[tuple[NDArray[np.void], NDArray[np.uint8]]]:
        """The records of a core's log, frame by frame: RECORD[n] and the bytes that they index."""
        for rows, blob in iter_core_records(self._recording, core):
            if self._recording.manifest.paged:
                rows = lines_missed(rows, blob, self._places, self.strata[:, core])
            yield rows, blob

    @cached_property
    def strata(self) -> NDArray[np.uint64]:
        """uint64 (strata, streams): each stream's instruction count at the cut, of stores how many had
        committed."""
        return strata(self._recording, self._agent_marks[0])

    @cached_property
    def pages(self) -> Contested:
        """Which pages are contested. Raises FormatError."""
        return Contested(self._recording, self.strata, holds=self._by_holds, handovers=self._handovers)

    @property
    def _places(self) -> Places:
        none, memory = np.zeros(0, np.uint64), self._recording.manifest.memory
        if not self.holds:
            return Places(memory, none, none, no_spells())
        pages = self.pages
        return Places(memory, pages.by_holds, np.unique(pages.words >> PAGE_SHIFT), pages.spells)

    @cached_property
    def _agent_marks(self) -> tuple[NDArray[np.uint64], NDArray[np.void]]:
        return agent_marks(self._recording)

    @cached_property
    def syncs(self) -> NDArray[np.void]:
        """Where agents met cores: SYNC_POINT[n] (emu/bus/sync_points.py). Raises FormatError."""
        found = self._agent_marks[1]
        return found if self.has_final else found[found["stratum"] < len(self.strata)]

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
        guest = memory[: self._recording.manifest.memory]
        load_image(self._recording, name, guest)
        if self.holds:
            region = 0 if name == "initial" else len(self.strata)
            self._tell_holds(guest, memory[len(guest) :].view(np.uint64), region)
        return memory

    def _tell_holds(self, guest: NDArray[np.uint8], places: NDArray[np.uint64], region: int) -> None:
        """Put what stands for pages into the places behind memory, of those that are told by holds in a
        region; where accesses tell of them before or later, there is nothing meanwhile."""
        pages, spells = self.pages, self.pages.spells
        fill_places(guest, pages.by_holds, pages.words, places)
        now = (spells.first <= region) & (region < spells.end)
        fill_places(guest, spells.page[now], spells.words_in(region), places)
        clear_pages(guest, spells.page[now], spells.words_in(region))

    def chunks(self, stream: int) -> Iterator[NDArray[np.void]]:
        """A stream's events in program order, in chunks: EVENT[n]. Raises FormatError, Divergence."""
        n_cores = self._recording.manifest.n_cores
        if stream == n_cores:
            return self._kept(stream, iter_agent_trace(self._recording))
        core = stream if stream < n_cores else stream - n_cores - 1
        if not self.buffered:
            return self._kept(stream, self._replay(core))
        both = SideBySide(self._replay(core))
        if stream < n_cores:
            return self._kept(stream, both.loads(alone=True))
        return self._kept(stream, both.stores(alone=True))

    def program_order(self, stream: int) -> Iterator[NDArray[np.void]]:
        """All of a core's events, stores as they were issued, or the agents', in chunks: EVENT[n]. Of a
        recording whose recorder was killed what precedes the last stratum by instruction count."""
        if stream == self._recording.manifest.n_cores:
            return self.chunks(stream)
        return self._kept(stream, self._replay(stream))

    def streams(self) -> list[Iterator[NDArray[np.void]]]:
        """`chunks` of all streams, to be read side by side: one replay serves both streams of a core."""
        n_cores = self._recording.manifest.n_cores
        if not self.buffered:
            return [self.chunks(stream) for stream in range(self.n_streams)]
        cores = [SideBySide(self._replay(core)) for core in range(n_cores)]
        loads = [self._kept(core, both.loads()) for core, both in enumerate(cores)]
        stores = [self._kept(n_cores + 1 + core, both.stores()) for core, both in enumerate(cores)]
        return [*loads, self.chunks(n_cores), *stores]

    def _kept(self, stream: int, pieces: Iterator[NDArray[np.void]]) -> Iterator[NDArray[np.void]]:
        """What precedes the last stratum, if the recorder was killed."""
        cut = None
        if not self.has_final:
            cut = int(self.strata[-1, stream]) if len(self.strata) else 0
        numbered, number = stream > self._recording.manifest.n_cores, 0
        for piece in pieces:
            kept = piece
            if cut is not None and numbered:
                kept = piece[: max(cut - number, 0)]
            elif cut is not None:
                kept = piece[piece["count"] < np.uint64(cut)]
            number += len(piece)
            if len(kept):
                yield kept
            if len(kept) < len(piece):
                return

    def _replay(self, core: int) -> Iterator[NDArray[np.void]]:
        if self._kept_rows is not None and self._kept_rows.has(core, self.kind):
            yield from self._kept_rows.chunks(core, self._rows)
            return
        progress = self._progress
        report = None if progress is None else lambda count: progress(core, count)
        watched = None if self._rows == ALL else self.pages.of(core, self._rows)
        rows = CoreReplay(self._recording, core, traced=True, watched=watched).run(report)
        yield from with_meetings(rows, meeting_rows(self.syncs, core)) if self._meetings else rows
