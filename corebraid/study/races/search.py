"""The races of a recording: found by vector clocks, held against suppressions, named, and looked at more
closely.

How: `accesses.py` has the accesses of the certificate's order, `calls.py` and `steps.py` what puts threads in
order besides memory, `histories.py` both as one, `clocks.py` the clocks, `turning.py` whether two accesses
could have come the other way round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.names.asked_places import AskedPlaces
from corebraid.names.devices import device_symbols
from corebraid.names.places import KIND_NAMES, Place, Places, kind_codes
from corebraid.names.program import GuestProgram
from corebraid.names.threads import Threads, thread_name, threads_of
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.novelty import OWN
from corebraid.study.races.accesses import DEVICES, WORD, Rows, Shared
from corebraid.study.races.candidates import Candidate, Candidates, candidates
from corebraid.study.races.found import Hit, Race, Races, Side
from corebraid.study.races.moments import Moment, stacks_at
from corebraid.study.races.spinning import waited_at
from corebraid.study.races.suppressions import Suppression
from corebraid.study.races.turning import Turn, Turned, Turning
from corebraid.study.stacks import Stack
from recorder.files.missing_order import missing_edges
from recorder.files.reader import Recording, sync_points
from solver.freedom.freedom import Limits

#: Races whose stacks are looked for.
_MOST_STACKS = 500
_BAD_TO_GOOD = (Turn.HELD, Turn.UNDECIDED, Turn.FREE, Turn.SAME)


@dataclass(frozen=True)
class Wanted:
    """suppressions: what is not told. sync: data whose bytes synchronise, as `AskedPlaces.addresses`
    takes it. spinning: whether words that threads have waited at do too.
    limits: of each search for an order the other way round; None: none is made. limit: races told, at most.
    """

    suppressions: Sequence[Suppression]
    sync: tuple[str, ...]
    spinning: bool
    limits: Limits | None
    limit: int | None


def races_of(recording: Recording, wanted: Wanted, progress: Callable[[int], None]) -> Races:
    """progress: called with how many accesses have been read. Raises UsageError, FormatError, OrderError,
    Divergence."""
    program = GuestProgram.of(recording.path, recording.manifest, device_symbols())
    places = AskedPlaces(program)
    spans = [places.addresses(text, "sync") for text in wanted.sync]

    def synchronise(shared: Shared, words: NDArray[np.uint64]) -> Iterable[tuple[int, int]]:
        waited = waited_at(shared, recording.manifest.n_cores) if wanted.spinning else []
        return [*waited, *((one.low, one.high - one.low) for one in spans), *_declared(program, words)]

    every = candidates(recording, progress, synchronise)
    names = _Names(recording, program, every)
    stacks = names.stacks(every.found)
    told, hits = _unsuppressed(every.found, names, stacks, wanted.suppressions)
    turning = None
    if wanted.limits is not None:
        buffered = bool(recording.manifest.store_buffer)
        turning = Turning(every.shared, every.whole, every.words, wanted.limits, buffered=buffered)
    turned = {one: _turn(turning, one) for one in told}
    told = sorted(told, key=lambda one: names.race(one, turned[one], stacks).rank)[: wanted.limit]
    return Races(
        recording.path,
        tuple(names.race(one, turned[one], stacks) for one in told),
        hits,
        len(every.words),
        len(every.shared.rows),
        every.synchronising,
        tuple(every.shared.regions.tolist()),
        every.left_out,
        every.shared.dropped,
        tuple(missing_edges(recording.manifest)),
    )


def _declared(program: GuestProgram, words: NDArray[np.uint64]) -> list[tuple[int, int]]:
    """The bytes of these words that the program declares as atomic."""
    every: NDArray[np.uint64] = np.repeat(words * np.uint64(WORD), WORD)
    every = every + np.tile(np.arange(WORD, dtype=np.uint64), len(words))
    return [(address, 1) for address in every[program.data_names.atomic(every)].tolist()]


def _unsuppressed(
    found: Sequence[Candidate],
    names: _Names,
    stacks: dict[Moment, Stack],
    suppressions: Sequence[Suppression],
) -> tuple[list[Candidate], tuple[Hit, ...]]:
    told, hits = [], Counter[int]()
    for one in found:
        fits = names.suppressed(one, stacks, suppressions)
        if fits is None:
            told.append(one)
        else:
            hits[fits] += 1
    shown = (Hit(one, hits[n]) for n, one in enumerate(suppressions) if hits[n] or one.where)
    return told, tuple(shown)


def _turn(turning: Turning | None, one: Candidate) -> tuple[list[Turned], int]:
    """What was found of each of its accesses that was looked at, and which of them is the worst."""
    found = [Turned(Turn.UNDECIDED)] if turning is None else [turning.of(*rows) for rows in one.rows]
    return found, min(range(len(found)), key=lambda n: _BAD_TO_GOOD.index(found[n].turn))


class _Names:
    """Races of a program in words."""

    def __init__(self, recording: Recording, program: GuestProgram, every: Candidates) -> None:
        self._recording, self._program, self._rows = recording, program, every.shared.rows
        self._who = every.shared.who
        self._n_cores = recording.manifest.n_cores
        self._places, self._kinds = Places(program, self._n_cores), CodeNames(program)
        self._points = sync_points(recording)
        self._threads: Threads | None = threads_of(recording)

    def suppressed(
        self, one: Candidate, stacks: dict[Moment, Stack], suppressions: Sequence[Suppression]
    ) -> int | None:
        """By which it is."""
        first, second = one.rows[0]
        functions = self._functions(first, stacks), self._functions(second, stacks)
        data = self._data(first, second)[1]
        return next((n for n, rule in enumerate(suppressions) if rule.fits(functions, data)), None)

    def _functions(self, row: int, stacks: dict[Moment, Stack]) -> frozenset[str]:
        """What an access's function is called, and where it is a library's, those of the library by which
        the program came there."""
        name, moment = self._function(row), self._moment(row)
        stack = None if moment is None else stacks.get(moment)
        found = {name} if name else set()
        library = name.partition("!")[0]
        for frame in stack.first if stack is not None and self._in_library(row) else ():
            inner = frame.name.partition("+")[0]
            if inner.partition("!")[0] != library:
                break
            found.add(inner)
        return frozenset(found)

    def _in_library(self, row: int) -> bool:
        return not self._own(row) and int(self._rows["core"][row]) < self._n_cores

    def race(self, one: Candidate, turned: tuple[list[Turned], int], stacks: dict[Moment, Stack]) -> Race:
        """What is told of it. Of several accesses that were looked at the worst."""
        found, worst = turned
        first, second = one.rows[worst]
        address, data = self._data(first, second)
        own = all(self._own(row) for row in (first, second))
        sides = self._side(first, stacks), self._side(second, stacks)
        return Race(address, data, one.times, *sides, found[worst].turn, len(found), found[worst].window, own)

    def stacks(self, told: Sequence[Candidate]) -> dict[Moment, Stack]:
        """Of all that is looked at, of the first pairs of places."""
        moments = {
            moment: self._name(row)
            for one in told[:_MOST_STACKS]
            for pair in one.rows
            for row in pair
            if (moment := self._moment(row)) is not None
        }
        return stacks_at(self._recording, self._program, moments)

    def _data(self, first: int, second: int) -> tuple[int, str]:
        """(address, name) of the first byte that both touch."""
        address = max(int(self._rows["addr"][row]) for row in (first, second))
        return address, self._program.data_names.name(address)

    def _place_of(self, row: int) -> Place:
        return self._places.places[int(self._places.index(self._rows[row : row + 1])[0])]

    def _function(self, row: int) -> str:
        place = self._place_of(row)
        return str(place.agent or place.symbol)

    def _own(self, row: int) -> bool:
        is_agent = int(self._rows["core"][row]) == self._n_cores
        return not is_agent and self._kinds.kind(int(self._rows["pc"][row])) == OWN

    def _name(self, row: int) -> str:
        who = int(self._who[row])
        if self._threads is not None:
            return thread_name(self._recording.manifest.end, who)
        return f"core {who}" if who < DEVICES else "a device"

    def _side(self, row: int, stacks: dict[Moment, Stack]) -> Side:
        one, place = self._rows[row], self._place_of(row)
        agents = int(one["core"]) == self._n_cores
        core = self._program.agents if agents else str(int(one["core"]))
        moment = self._moment(row)
        return Side(
            f"{core}:{int(one['count'])}",
            self._name(row),
            KIND_NAMES[int(kind_codes(self._rows[row : row + 1])[0])],
            int(one["size"]),
            int(one["old"]),
            int(one["new"]),
            None if agents else int(one["pc"]),
            self._function(row),
            place.name or (hex(int(one["pc"])) if not agents else ""),
            place.line,
            place.agent,
            None if moment is None else stacks.get(moment),
        )

    def _moment(self, row: int) -> Moment | None:
        """Before which instruction the stack is that is to be told: for the kernel's accesses, the call."""
        one = self._rows[row]
        if int(one["core"]) < self._n_cores:
            return int(one["core"]), int(one["count"])
        at = int(np.searchsorted(self._points["number"], one["count"], side="right")) - 1
        if self._threads is None or at < 0 or not int(self._points["count"][at]):
            return None
        core, count = int(self._points["core"][at]), int(self._points["count"][at]) - 1
        before: Rows = np.zeros(1, self._rows.dtype)
        before["core"], before["count"] = core, count
        return (core, count) if int(self._threads.of(before)[0]) == int(self._who[row]) else None
