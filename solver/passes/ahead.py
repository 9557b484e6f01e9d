"""The regions of a recording, extracted by a second thread while the first sifts, solves and walks others.

Replay is native code and so are the kernels that work on a region; neither holds the interpreter's lock, so
both go on at once. Regions come in their order whatever the threads do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import compiling_time, stand_still, working_time
from solver.regions.quiet import Stretch
from solver.regions.traces import Events, Traces
from solver.sifting.strata import iter_stretches

#: Regions that wait to be worked on; the next one is on its way meanwhile.
_WAITING = 1
#: What a thread hands over: a region or a run of quiet ones, the error that ended it, or its end; and its
#: `compiling_time`.
_Found = tuple[Stretch | BaseException | None, float]


class _Stopped(Exception):
    """Nobody wants more regions."""


class _Stoppable:
    """`traces` up to where `stop` is set; their chunks raise _Stopped then."""

    def __init__(self, traces: Traces, stop: Event) -> None:
        self._traces, self._stop = traces, stop
        self.n_streams, self.buffered = traces.n_streams, traces.buffered
        self.memory_bytes, self.has_final = traces.memory_bytes, traces.has_final
        self.line_bytes, self.misses_prove_writes = traces.line_bytes, traces.misses_prove_writes
        self.unbounded, self.has_losses = traces.unbounded, traces.has_losses
        self.agents_say_owned, self.whole_pages = traces.agents_say_owned, traces.whole_pages
        self.contested, self.marked, self.holds = traces.contested, traces.marked, traces.holds
        self.handovers, self.untold = traces.handovers, traces.untold

    @property
    def strata(self) -> NDArray[np.uint64]:
        """See `Traces`."""
        return self._traces.strata

    @property
    def syncs(self) -> Events:
        """See `Traces`."""
        return self._traces.syncs

    def records(self, core: int) -> Iterator[tuple[Events, NDArray[np.uint8]]]:
        """See `Traces`."""
        return self._traces.records(core)

    def losses(self, core: int) -> Iterator[Events]:
        """See `Traces`."""
        return self._traces.losses(core)

    def initial(self) -> NDArray[np.uint8]:
        """See `Traces`."""
        return self._traces.initial()

    def final(self) -> NDArray[np.uint8]:
        """See `Traces`."""
        return self._traces.final()

    def chunks(self, stream: int) -> Iterator[Events]:
        """See `Traces`."""
        return self._until_stopped(self._traces.chunks(stream))

    def streams(self) -> list[Iterator[Events]]:
        """See `Traces`."""
        return [self._until_stopped(chunks) for chunks in self._traces.streams()]

    def program_order(self, stream: int) -> Iterator[Events]:
        """See `Traces`."""
        return self._until_stopped(self._traces.program_order(stream))

    def _until_stopped(self, chunks: Iterator[Events]) -> Iterator[Events]:
        for chunk in chunks:
            if self._stop.is_set():
                raise _Stopped
            yield chunk


@contextmanager
def regions_ahead(traces: Traces) -> Iterator[Iterator[Stretch]]:
    """`iter_stretches(traces)` by a thread that lasts as long as the `with`, and is never far ahead.
    Iterating raises what `iter_stretches` does, where it does."""
    stop: Event = Event()
    found: Queue[_Found] = Queue(_WAITING)

    def extract() -> None:
        end: BaseException | None = None
        try:
            for region in iter_stretches(_Stoppable(traces, stop)):
                found.put((region, compiling_time()))
                if stop.is_set():
                    return
        except _Stopped:
            return
        except BaseException as error:
            end = error
        found.put((end, compiling_time()))

    thread = Thread(target=extract, name="extraction", daemon=True)
    try:
        thread.start()
        yield _taken(found)
    finally:
        stop.set()
        while thread.is_alive():
            # It may be waiting for room.
            while not found.empty():
                found.get()
            thread.join(0.01)


def _taken(found: Queue[_Found]) -> Iterator[Stretch]:
    item, compiled = _next(found, 0.0)
    while item is not None:
        if isinstance(item, BaseException):
            raise item
        yield item
        item, compiled = _next(found, compiled)


def _next(found: Queue[_Found], compiled: float) -> _Found:
    """What comes next. The wait for kernels of that thread's is not booked as work of this one's. compiled:
    what that thread had compiled when it handed over what was before."""
    began = working_time()
    item, now = found.get()
    stand_still(min(working_time() - began, now - compiled))
    return item, now
