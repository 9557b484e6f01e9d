"""Searching slices while the program runs that has them: a process of its own, which the recorder never waits
for (LightPlay, sections 2 and 2.2)."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import resource
import select
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import CorebraidError, UsageError, unless_short
from corebraid.base.wording import Option, Phrase
from recorder.evidence.slices.handover import BATCH
from solver.passes.pool import begin_worker, end_workers, interrupts_held

if TYPE_CHECKING:
    from solver.evidence.lightplay.known import KnownWriter

#: Bytes that wait to be handed over at most; slices for which there is no room are not searched here.
_MOST_WAITING = 64 << 20
#: How often is looked whether the search is over, or was called off; whether what was found is to be written.
_LOOK_S, _IDLE_S = 0.05, 0.25
#: The search gives way to the recorder where processors are few.
_NICE = 5
_BEGIN = struct.Struct("<16sI")
_END = BATCH.pack(0, 0, 0)
#: What the search tells: words of a page that both have, and behind them why it failed.
_PAGE, _TEXT = 4096, 64
_DECIDED, _WITHOUT, _MICROS, _FAILED, _READY = range(5)


@dataclass(frozen=True)
class SearchedAhead:
    """What became of the search. slices: that had a race. running: that were decided while the program ran;
    after: after its end; without: of those the ones without an order. lag: seconds from the program's end to
    that of the search. seconds: of a processor that the search took. why: why some were left, "" if none
    were."""

    slices: int
    running: int
    after: int
    without: int
    lag: float
    seconds: float
    why: str

    @property
    def left(self) -> int:
        """Slices that were not decided."""
        return self.slices - self.running - self.after

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "slices": self.slices,
            "while_running": self.running,
            "afterwards": self.after,
            "left": self.left,
            "without_order": self.without,
            "lag_seconds": round(self.lag, 6),
            "processor_seconds": round(self.seconds, 6),
            "why_left": self.why or None,
        }

    def line(self) -> str:
        """In words."""
        left = f"; {self.left:,} are left: {self.why}" if self.left or self.why else ""
        return (
            f"{self.slices:,} slices with a race: {self.running:,} searched while the program ran, "
            f"{self.after:,} after its end, in {self.lag:.3f} s{left}"
        )


class SliceSearch:
    """Hands slices to the process that searches them: a `Follower` of evidence slices. What does not go
    through the pipe at once waits here, for the next time that something is handed over."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _PAGE)
        self._words = memoryview(self._page).cast("Q")
        mine, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        self._waiting: deque[memoryview] = deque()
        self._n_waiting = self._slices = self._running = 0
        self._over: float | None = None
        self._why = ""
        context = multiprocessing.get_context("fork")
        arguments = (mine, self._pipe, self._page, os.getpid())
        self._process = context.Process(target=_search, args=arguments, daemon=True)
        with interrupts_held():
            self._process.start()
        os.close(mine)

    @property
    def process(self) -> int:
        """Number of the process that searches."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Whether it has loaded what it searches with. It takes slices before that."""
        return bool(self._words[_READY])

    # -- as the recorder calls it --------------------------------------------------------------------

    def begin(self, path: Path, recording: bytes) -> None:
        """See `Follower`."""
        name = os.fsencode(path.absolute())
        self._put(_BEGIN.pack(recording, len(name)) + name)

    def take(self, batch: bytes) -> None:
        """See `Follower`."""
        self._slices += BATCH.unpack_from(batch)[0]
        if self._n_waiting + len(batch) > _MOST_WAITING:
            self._why = "the search fell too far behind"
        else:
            self._put(batch)

    def over(self) -> None:
        """See `Follower`."""
        self._over, self._running = time.monotonic(), self._words[_DECIDED]

    # -- afterwards ----------------------------------------------------------------------------------

    def finish(self, look: Callable[[], None]) -> SearchedAhead:
        """The recording is finished: wait for the search. look: called now and then; may raise
        KeyboardInterrupt, which comes through."""
        self._put(_END)
        while self._waiting and self._process.is_alive():
            look()
            select.select([], [self._pipe], [], _LOOK_S)
            self._push()
        while self._process.is_alive():
            look()
            self._process.join(_LOOK_S)
        return self._result("the searching process was killed")

    def call_off(self) -> SearchedAhead:
        """The recording is finished, and nobody waits for the search."""
        return self._result("the search was called off")

    def _result(self, why: str) -> SearchedAhead:
        """why: why slices are left, if nothing else is to blame."""
        self.close()
        decided, without, micros, n = self._words[: _FAILED + 1].tolist()
        failed = self._page[_TEXT : _TEXT + n].decode("utf-8", "replace")
        running = min(self._running, decided)
        lag = 0.0 if self._over is None else time.monotonic() - self._over
        why = failed or ("" if decided == self._slices else self._why or why)
        return SearchedAhead(self._slices, running, decided - running, without, lag, micros / 1e6, why)

    def close(self) -> None:
        """Nothing more is searched. What was found and written stays."""
        end_workers([self._process])
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _put(self, data: bytes) -> None:
        self._waiting.append(memoryview(data))
        self._n_waiting += len(data)
        self._push()

    def _push(self) -> None:
        """Hand over what the pipe takes."""
        while self._waiting:
            try:
                n = os.write(self._pipe, self._waiting[0])
            except BlockingIOError:
                return
            except BrokenPipeError:
                # The process has ended, which is told when the recording is finished.
                self._waiting.clear()
                self._n_waiting = 0
                return
            self._n_waiting -= n
            rest = self._waiting.popleft()[n:]
            if rest:
                self._waiting.appendleft(rest)


@contextmanager
def searching() -> Iterator[SliceSearch]:
    """A search that has begun, and ends with the recording if nobody waits for it. Raises UsageError."""
    try:
        search = SliceSearch()
    except OSError as error:
        unless_short(error)
        raise UsageError(
            f"the process that is to search slices cannot begin ({error.strerror})",
            remedy=Phrase("leave ", Option("search_slices", True), " out: slices can be searched afterwards"),
        ) from None
    try:
        yield search
    finally:
        search.close()


# -- the process -----------------------------------------------------------------------------------------


def _search(pipe: int, others: int, page: mmap.mmap, parent: int) -> None:
    """Its life: slices, until there are no more."""
    begin_worker(parent)
    os.close(others)
    # What the kernels' compiler has to say the recorder says too.
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(quiet, stream)
    with suppress(OSError):
        os.nice(_NICE)
    try:
        _search_all(pipe, memoryview(page).cast("Q"))
    except CorebraidError as error:
        _tell_failure(page, error.line())
    except Exception as error:
        _tell_failure(page, f"the search failed, which is a defect of corebraid: {error!r}")


def _tell_failure(page: mmap.mmap, line: str) -> None:
    text = line.encode("utf-8", "replace")[: _PAGE - _TEXT]
    page[_TEXT : _TEXT + len(text)] = text
    memoryview(page).cast("Q")[_FAILED] = len(text)


def _search_all(pipe: int, words: memoryview) -> None:
    """Search what comes, to the end of it. Raises FormatError where what is found cannot be written."""
    from recorder.evidence.slices.handover import batch_bytes, slices_of
    from solver.evidence.lightplay.ahead import decide_ahead, load_kernels
    from solver.evidence.lightplay.decide import CONTRADICTED, UNDECIDED, Settings
    from solver.evidence.lightplay.known import KnownWriter

    settings = Settings()
    load_kernels(settings)
    words[_READY] = 1
    if not (head := _read(pipe, _BEGIN.size)):
        return
    recording, length = _BEGIN.unpack(head)
    writer = KnownWriter(Path(os.fsdecode(_read(pipe, length))), recording, settings)
    while head := _next_head(pipe, writer):
        for handed in slices_of(head, _read(pipe, batch_bytes(head))):
            one = decide_ahead(handed, settings)
            writer.add(one)
            words[_WITHOUT] += one.how in (UNDECIDED, CONTRADICTED)
            words[_DECIDED] += 1
    writer.close()
    used = resource.getrusage(resource.RUSAGE_SELF)
    words[_MICROS] = round(1e6 * (used.ru_utime + used.ru_stime))


def _next_head(pipe: int, writer: KnownWriter) -> bytes:
    """Of the next batch; empty where there are no more. Meanwhile what was found is written."""
    while not select.select([pipe], [], [], _IDLE_S)[0]:
        writer.idle()
    writer.idle()
    head = _read(pipe, BATCH.size)
    return b"" if head == _END else head


def _read(pipe: int, n: int) -> bytes:
    """So many bytes; none where there are not as many."""
    found = bytearray()
    while len(found) < n:
        piece = os.read(pipe, n - len(found))
        if not piece:
            return b""
        found += piece
    return bytes(found)
