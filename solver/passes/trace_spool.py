"""All streams of a recording in unnamed temporary files, cut at the strata, for several processes to read.

Each stream is extracted once, by one process, and read as soon as a region is there. The files have no
names: they are gone when the last process that has them open is, however it ended. About 28 bytes an event.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import CorebraidError
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.packed import MOST_WORDS, ROWS, pack_rows, room, start_of_region, unpack_rows
from corebraid.base.scratch_file import ScratchFile
from solver.regions.quiet import Quiet
from solver.regions.region import Region
from solver.regions.sync_order import SyncsOfRegions
from solver.regions.traces import Events, Traces
from solver.sifting.strata import Cursor
from solver.tenures.buffered_deduce import BufferedTenures, buffered_scanner_of
from solver.tenures.buffered_lines import BufferedLines
from solver.tenures.buffered_scan import BufferedBegins, BufferedScanner
from solver.tenures.lines import HotLines
from solver.tenures.region import RegionTenures, scanner_of, tenures_in
from solver.tenures.scan import Begins, Scanner
from solver.tenures.spool import BeginsSpool
from solver.tenures.spool import Border as BeginsBorder

#: A stream's progress is told after so many rows or regions.
_ROWS_A_MESSAGE, _REGIONS_A_MESSAGE = 1 << 14, 64


_WORD = 8
#: A stream's rows of a region stay unpacked while the region is worked on, up to this many.
_HELD_ROWS = 1 << 16
#: A stream's rows and words up to the end of a region.
Ends = tuple[int, int]
#: Where a stream's rows of a region are: how many, first word, end.
Border = tuple[int, int, int]


@dataclass(frozen=True)
class Told:
    """How far the streams of a source, a core or the agents, have come at the end of a region. tail: as in
    `Region.tails`, of a core under TSO. begins: where a core's tenures in the region are, if they are
    used."""

    ends: tuple[Ends, ...]
    tail: Events | None = None
    begins: BeginsBorder | None = None

    @property
    def lost(self) -> int:
        """How many lines the core lost in the region."""
        return self.begins[2] if self.begins else 0


@dataclass(frozen=True)
class Borders:
    """Where a region is: in every stream's file, the stores that it leaves to later ones, and where the
    cores' tenures are."""

    streams: list[Border]
    tails: list[Events]
    begins: list[BeginsBorder]


class SpooledRows:
    """One stream's rows of one region in the spool."""

    def __init__(self, file: int, region: int, core: int, border: Border) -> None:
        self._file, self._region, self._core = file, region, core
        self._n, self._first, self._end = border
        self._held: Events | None = None

    def __len__(self) -> int:
        return self._n

    def pieces(self) -> Iterator[Events]:
        """The rows, unpacked; a piece is good until the next one is asked for."""
        if self._held is not None:
            yield self._held
        if self._held is not None or not self._n:
            return
        start = self._first * _WORD
        aligned = start - start % mmap.ALLOCATIONGRANULARITY
        length = self._end * _WORD - aligned
        # Private and writable, so that kernels see arrays of one type only; nobody writes.
        mapped = mmap.mmap(self._file, length, flags=mmap.MAP_PRIVATE, offset=aligned)
        words = np.frombuffer(mapped, np.uint64, count=self._end - self._first, offset=start - aligned)
        last, at = start_of_region(), 0
        if self._n <= _HELD_ROWS:
            self._held = np.empty(self._n, EVENT)
            unpack_rows(words, 0, self._region, self._core, last, self._held, self._n)
            yield self._held
            return
        rows = room()
        while at < len(words):
            n, at = unpack_rows(words, at, self._region, self._core, last, rows, ROWS)
            yield rows[:n]


class TraceSpool:
    """Room for the events of `traces`. Make it before the processes that share it are forked."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._files = [ScratchFile() for _ in range(traces.n_streams)]
        self._first_store = traces.n_streams - traces.buffered
        self._syncs = SyncsOfRegions(traces)
        n_cores, line = self._first_store - 1, traces.line_bytes
        self._begins = BeginsSpool(n_cores, line, buffered=traces.buffered > 0) if line else None
        lines = BufferedLines if traces.buffered else HotLines
        self._lines = lines(traces.memory_bytes, line, n_cores) if line else None
        self._told: list[list[Told]] = [
            [Told(tuple((0, 0) for _ in self._streams_of(source)))] for source in range(self._first_store)
        ]

    @property
    def n_sources(self) -> int:
        """What there is to extract: cores, agents."""
        return self._first_store

    def _streams_of(self, source: int) -> list[int]:
        """The streams that one replay gives: under TSO a core's stores are one of their own."""
        stores = self._first_store + source
        return [source, stores] if source < self._traces.buffered else [source]

    def extract(self, source: int) -> Iterator[list[Told]]:
        """Write the events of a core or of the agents to their files. Yields, in batches, how far they
        are after each region, from the first to the last; `learn` wants to hear of it.

        Raises what the traces raise, FormatError as `regions.Cursor`, and CorebraidError when the disk is
        full; what was yielded before is good.
        """
        chunks, streams = self._traces.streams(), self._streams_of(source)
        cursors = [Cursor(self._traces, stream, chunks[stream]) for stream in streams]
        done, told_rows = [(0, 0) for _ in streams], 0
        told: list[Told] = []
        scanner = self._scanner(source)
        region, n_regions = 0, len(self._traces.strata) + 1
        while region < n_regions:
            last_number = 0
            try:
                for k, cursor in enumerate(cursors):
                    last, (rows, words) = start_of_region(), done[k]
                    for piece in cursor.take(region):
                        packed = np.empty(len(piece) * MOST_WORDS, np.uint64)
                        packed = packed[: pack_rows(piece, packed, last)]
                        self._write(streams[k], words, packed)
                        if isinstance(scanner, BufferedScanner):
                            scanner.add(k, piece)
                        elif scanner is not None:
                            scanner.add(region, piece)
                        rows, words = rows + len(piece), words + len(packed)
                        last_number = int(piece["seq"][-1]) if k == 0 else last_number
                    done[k] = rows, words
                tail = cursors[1].upcoming(last_number) if len(cursors) > 1 else None
                begins = None
                if isinstance(scanner, BufferedScanner):
                    begins = self._write_begins(source, scanner.take())
                elif scanner is not None:
                    begins = self._write_begins(source, scanner.take(region))
            except CorebraidError:
                yield told
                raise
            told.append(Told(tuple(done), tail, begins))
            region += 1
            quiet = self._quiet_from(region, cursors, scanner) - region
            if quiet:
                told += [self._told_quiet(source, told[-1])] * quiet
                region += quiet
            if done[0][0] - told_rows >= _ROWS_A_MESSAGE or len(told) >= _REGIONS_A_MESSAGE:
                yield told
                told, told_rows = [], done[0][0]
        yield told

    def _quiet_from(
        self, region: int, cursors: list[Cursor], scanner: Scanner | BufferedScanner | None
    ) -> int:
        """Where the run of regions, perhaps none, ends that begins here and in which a source has no rows and
        loses no lines. They count as taken."""
        ahead = [cursor.next_region for cursor in cursors]
        ahead.append(scanner.next_loss if scanner else None)
        n_regions = len(self._traces.strata) + 1
        end = min((at for at in ahead if at is not None), default=n_regions)
        end = max(region, min(end, n_regions))
        if isinstance(scanner, BufferedScanner):
            scanner.pass_over(end - region)
        return end

    def _told_quiet(self, source: int, before: Told) -> Told:
        """Of a region in which a source has no rows and loses no lines. before: of the one before it."""
        tail = None if before.tail is None else before.tail[:0]
        return Told(
            before.ends, tail, self._begins.nothing(source) if self._begins and before.begins else None
        )

    def _scanner(self, source: int) -> Scanner | BufferedScanner | None:
        """What finds the tenures of a core, if they are used."""
        if self._begins is None or source == self._first_store - 1:
            return None
        return (buffered_scanner_of if self._traces.buffered else scanner_of)(self._traces, source)

    def _write(self, stream: int, word: int, packed: NDArray[np.uint64]) -> None:
        self._files[stream].write(word * _WORD, packed.view(np.uint8).data)

    def _write_begins(self, core: int, begins: Begins | BufferedBegins) -> BeginsBorder:
        assert self._begins is not None
        return self._begins.write(core, begins)

    def learn(self, source: int, told: list[Told]) -> None:
        """Take note of what `extract` yielded, in this process or another."""
        self._told[source] += told

    def complete(self, source: int) -> int:
        """How many regions of a source are in its files, as far as `learn` was told."""
        return len(self._told[source]) - 1

    def is_quiet(self, region: int) -> bool:
        """Whether nothing happens in a region that all sources have told of: see `Quiet`."""
        return self._syncs.next_region(region) != region and all(
            told[region].ends == told[region + 1].ends and not told[region + 1].lost for told in self._told
        )

    def quiet(self, first: int, end: int) -> Quiet:
        """A run of regions for each of which `is_quiet` holds."""
        return Quiet(first, end, self._traces.n_streams, self._traces.buffered)

    def borders(self, region: int) -> Borders:
        """Where a region is in every stream's file."""
        streams: list[Border] = [(0, 0, 0)] * len(self._files)
        tails, begins = [], []
        for source, told in enumerate(self._told):
            before, after = told[region], told[region + 1]
            for stream, begin, end in zip(self._streams_of(source), before.ends, after.ends, strict=True):
                streams[stream] = (end[0] - begin[0], begin[1], end[1])
            if after.tail is not None:
                tails.append(after.tail)
            if after.begins is not None:
                begins.append(after.begins)
        return Borders(streams, tails, begins)

    def region(self, index: int, borders: Borders) -> Region:
        """A region from the files. borders: as the process that learnt of them knows."""
        files = enumerate(zip(self._files, borders.streams, strict=True))
        first = self._first_store
        rows = [
            SpooledRows(file.fileno(), index, stream if stream < first else stream - first, border)
            for stream, (file, border) in files
        ]
        return Region(index, rows, borders.tails, self._syncs.of(index), self._tenures(borders))

    def _tenures(self, borders: Borders) -> RegionTenures | BufferedTenures | None:
        if self._begins is None or self._lines is None:
            return None
        found = [self._begins.read(core, border) for core, border in enumerate(borders.begins)]
        if isinstance(self._lines, BufferedLines):
            begins = [one for one in found if isinstance(one, BufferedBegins)]
            traces = self._traces
            return BufferedTenures(begins, self._lines, traces.misses_prove_writes, traces.has_losses)
        return tenures_in(self._traces, [one for one in found if isinstance(one, Begins)], self._lines)

    def close(self) -> None:
        """Give the disk space back, once all processes have."""
        for file in self._files:
            file.close()
        if self._begins is not None:
            self._begins.close()
