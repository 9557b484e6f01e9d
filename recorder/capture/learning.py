"""Learning which words a program's tasks share, from runs that nobody keeps; mostly from one.

They have schedules of their own, the same whatever the seed, so that what is learnt is a function of the
program and its options alone: two recordings with one seed watch the same words.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.removal import remove_tree
from corebraid.base.rows.event import FETCH, READ, UNCACHED, WRITE
from emu.schedule.shared_words import SHARED_EVENT, WORD, SharedWords
from recorder.capture.options import Outcome, RecordOptions
from recorder.capture.overtaking import overtaken
from recorder.capture.paces import Paces
from recorder.capture.strata_policy import StrataPolicy
from recorder.capture.taken_memory import Taken, taken_from_others
from recorder.capture.turns import CALL, Turns
from recorder.files.collectors import Rows

#: Instructions of a learning run: all of it, and once there are several tasks.
_MOST, _MOST_TOGETHER = 30_000_000, 1_500_000
#: Runs, besides the first one, whose events are told.
_TOLD_TOO = (1, 3)

#: Bytes below the stack pointer that a task began with, and above, that are taken to be its own.
_STACK, _ABOVE_STACK = 1 << 20, 1 << 12


@dataclass
class Life:
    """A task: who made it (0: nobody), the stack pointer that it began with, the turns in which it lived. of:
    the task that it interrupts, where it is that one's signal handlers: when they run others decide. ends:
    the address of what the kernel clears when it ends, 0 for nothing; awaited: the turn in which somebody
    has looked at that afterwards, 0 for none."""

    who: int
    parent: int = 0
    stack: int = 0
    of: int = 0
    born: int = 0
    last: int = 0
    ends: int = 0
    awaited: int = 0

    def on_stack(self, address: int) -> bool:
        """Whether the address lies in its stack, or in the block of its thread above."""
        return self.stack - _STACK <= address < self.stack + _ABOVE_STACK


#: Of a core: the task that runs on it, and all that live.
Living = Callable[[int], tuple[int, list[Life]]]
#: More than a task's number: that of a task's handlers is so much more.
_HANDLERS = 1 << 40


def handlers_of(life: Life) -> Life:
    """The signal handlers of a task, as one that runs in its place."""
    return Life(_HANDLERS + life.who, stack=life.stack, of=life.who)


@dataclass(frozen=True)
class Learnt:
    """shared: the words. instructions, calls: of the longest run, calls of the system; whole: all came to
    their ends; ends: by exiting. hidden: paths that the host has, and the guest asked for and does not
    see. timed: a thread has waited with a timeout, while there were others. split: uint64[n], where
    instructions stand that read a shared word and write it, and are not indivisible. overtaken: uint64[n, 4],
    see `recorder.capture.overtaking.overtaken`."""

    shared: SharedWords
    instructions: int
    whole: bool
    hidden: tuple[str, ...] = ()
    calls: int = 0
    ends: bool = False
    timed: bool = False
    split: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    overtaken: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 4), np.uint64))


class StopRecording(Exception):
    """Raised by a progress callback: end the recording here, cleanly. reason: "interrupted", "time-limit"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def learning_options(options: RecordOptions, number: int) -> RecordOptions:
    """How to record a learning run, by its number from 0, of recordings with these options."""
    return replace(
        options, seed=0, scheduler=Paces(number), shared=None, evidence=(), evidence_options={},
        followers={}, model="sc", strata=StrataPolicy(), limit=min(options.limit or _MOST, _MOST),
    )  # fmt: skip


@contextmanager
def learning_place() -> Iterator[Path]:
    """A directory to record into, which is gone afterwards."""
    base = Path(tempfile.mkdtemp(prefix="corebraid-"))
    try:
        yield base / "learning"
    finally:
        remove_tree(base)


def ignore_output(_: bytes) -> None:
    """Output of a run that nobody keeps."""


class Learner:
    """Collects which tasks read and write which words. tasks: set before the run, None for firmware. number:
    of the learning run."""

    def __init__(self, number: int = 0) -> None:
        #: In later runs tasks end before others use what was theirs, as what the C library allocates from.
        self._ranked = number > 0
        self.tasks: Living | None = None
        self._turn = 0
        self._together = 0
        self._lives: dict[int, Life] = {}
        self._pieces: list[NDArray[np.uint64]] = []
        #: Words that tasks began to use by a store, in each turn: uint64[n, 3], the word, who, and the turn.
        self._stored: list[NDArray[np.uint64]] = []
        self._turns = Turns()
        self._taken: list[Taken] = []
        #: Words that an instruction has read and written, not indivisibly, and where it stands.
        self._split: list[NDArray[np.uint64]] = []
        #: Tasks whose end nobody has awaited; instructions of others while there were none but such.
        self._open: dict[int, Life] = {}
        self._alone = 0

    def enough(self, _: int) -> None:
        """Of progress. Raises StopRecording when there is nothing more to learn in reasonable time."""
        if self._together >= _MOST_TOGETHER:
            raise StopRecording("time-limit")

    def take(self, stream: int, rows: Rows) -> None:
        """See `recorder.files.collectors.Collector`."""
        self._turn += 1
        who, living = (stream, [Life(stream)]) if self.tasks is None else self._task(stream)
        for life in living:
            known = self._lives.setdefault(life.who, life)
            known.born, known.last = known.born or self._turn, self._turn
            known.ends = life.ends
            if known.ends and not known.awaited:
                self._open[known.who] = known
        left = [life for life in self._open.values() if life.last < self._turn]
        together = self.tasks is None or sum(not life.of for life in living) > 1
        if who < 0 or not (together or left):
            return
        data = rows[(rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0]
        begin = 0
        for at in np.flatnonzero(np.isin(data["addr"], [life.ends for life in left])).tolist():
            self._use(who, data[begin:at], together=together)
            self._turn, begin = self._turn + 1, at
            for life in (life for life in left if life.ends == int(data["addr"][at])):
                life.awaited = life.awaited or self._turn
                self._open.pop(life.who, None)
        self._use(who, data[begin:], together=together)

    def _use(self, who: int, data: Rows, *, together: bool) -> None:
        """What a task has done in a turn, or in a part of it. together: there were several tasks."""
        if not len(data) or (not together and self._alone >= _MOST_TOGETHER):
            return
        made = int(data["count"][-1] - data["count"][0])
        self._together, self._alone = self._together + made * together, self._alone + made * (not together)
        first = data["addr"] >> np.uint64(3)
        last = data["addr"] + data["size"] - np.uint64(1) >> np.uint64(3)
        wrote = (data["kind"] != READ).astype(np.uint64)
        crossing = last != first
        words = np.concatenate([first << np.uint64(1) | wrote, (last << np.uint64(1) | wrote)[crossing]])
        values = np.unique(words)
        piece = np.empty((len(values), 3), np.uint64)
        piece[:, 0], piece[:, 1], piece[:, 2] = values, who, self._turn
        self._pieces.append(piece)
        begun, at = np.unique(first, return_index=True)
        stored = begun[data["kind"][at] == WRITE]
        self._stored.append(
            np.stack([stored, *(np.full(len(stored), n, np.uint64) for n in (who, self._turn))], axis=1)
        )
        here, behind = data[:-1], data[1:]
        split = (here["kind"] == READ) & (behind["kind"] == WRITE)
        split &= (here["count"] == behind["count"]) & (here["addr"] == behind["addr"])
        self._split.append(np.unique(np.stack([first[:-1], data["pc"][:-1]], axis=1)[split], axis=0))
        if not together:
            return
        self._turns.use(who % _HANDLERS, first, last, data)

    def call(self, who: int, number: int) -> None:
        """A task makes a system call while there are several tasks."""
        self._turns.call(who, number)

    def take_away(self, who: int, start: int, end: int) -> None:
        """A task has taken the bytes from `start` to (not) `end`, or rights to them."""
        self._taken.append(Taken(self._turn, who, start // WORD, end // WORD))

    def _task(self, stream: int) -> tuple[int, list[Life]]:
        assert self.tasks is not None
        try:
            return self.tasks(stream)
        except IndexError:
            # The kernel, which is no core.
            return -1, []

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def words(self) -> NDArray[np.uint64]:
        """Words that two tasks have used, one of them to write, and not only one after the other's end;
        ascending."""
        rows = self._with_taken(np.concatenate([*self._pieces, np.zeros((0, 3), np.uint64)]))
        word, wrote = rows[:, 0] >> np.uint64(1), (rows[:, 0] & np.uint64(1)).astype(bool)
        order = np.lexsort((rows[:, 1], word))
        word, wrote, who, turn = word[order], wrote[order], rows[order, 1], rows[order, 2]
        if not len(word):
            return word
        begins = np.flatnonzero(np.concatenate([[True], word[1:] != word[:-1]]))
        ends = np.append(begins[1:], len(word))
        written = np.add.reduceat(wrote, begins, dtype=np.int64) > 0
        several = who[begins] != who[ends - 1]
        stored = self._stored_first(word[begins[written & several]])
        words = []
        for k in np.flatnonzero(written & several).tolist():
            part = slice(begins[k], ends[k])
            if self._conflict(int(word[begins[k]]), who[part], wrote[part], turn[part], stored):
                words.append(word[begins[k]])
        return np.array(words, np.uint64)

    def _stored_first(self, words: NDArray[np.uint64]) -> set[tuple[int, int, int]]:
        """Of these words who began to use which by a store, in which turn."""
        rows = np.concatenate([*self._stored, np.zeros((0, 3), np.uint64)])
        return set(map(tuple, rows[np.isin(rows[:, 0], words)].tolist()))

    def _with_taken(self, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """What tasks used, with what they took from others as written."""
        if not self._taken:
            return rows
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        of_task = rows[:, 1] % np.uint64(_HANDLERS)
        taken = taken_from_others(self._taken, rows[:, 0] >> np.uint64(1), of_task, rows[:, 2])
        taken[:, 0] = taken[:, 0] << np.uint64(1) | np.uint64(1)
        return np.concatenate([rows, taken])

    def events(
        self, words: NDArray[np.uint64], sites: dict[tuple[int, int], int] | None = None
    ) -> NDArray[np.void]:
        """The shared events that a machine which watches `words` counts in this run: SHARED_EVENT[n]. sites:
        of the sites their numbers, as far as there are any; more are added."""
        if not self._pieces:
            return np.zeros(0, SHARED_EVENT)
        whos, rows, kinds = self._turns.done()
        called = kinds == CALL
        kept = called | np.isin(rows[:, 0], words) | np.isin(rows[:, 1], words)
        whos, rows, called = whos[kept], rows[kept], called[kept]
        events = np.zeros(len(rows), SHARED_EVENT)
        events["who"] = whos
        sites = {} if sites is None else sites
        last: dict[int, tuple[int, int, int]] = {}
        for k, (who, count, place, call) in enumerate(
            zip(whos.tolist(), rows[:, 2].tolist(), rows[:, 3].tolist(), called.tolist(), strict=True)
        ):
            number, before, counted = last.get(who, (0, 0, -1))
            if not call and count == counted:
                # A second access of one instruction.
                continue
            last[who] = (number + 1, place, -1 if call else count)
            events["number"][k] = number + 1
            events["site"][k] = sites.setdefault((before, place), len(sites))
        return events[events["number"] > 0]

    def split(self) -> NDArray[np.uint64]:
        """Words that instructions read and write in two accesses, and where these stand: uint64[n, 2]."""
        return np.unique(np.concatenate([*self._split, np.zeros((0, 2), np.uint64)]), axis=0)

    def overtaken(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """See `recorder.capture.overtaking.overtaken`."""
        return overtaken(self._turns.done(), words)

    def _conflict(
        self,
        word: int,
        who: NDArray[np.uint64],
        wrote: NDArray[np.bool_],
        turn: NDArray[np.uint64],
        stored: set[tuple[int, int, int]],
    ) -> bool:
        """Whether one task's write and another's access could have come the other way round. stored: see
        `_stored_first`."""
        address = word * WORD
        lives = [self._lives[int(task)] for task in np.unique(who)]
        writes = {life.who: turn[(who == life.who) & wrote] for life in lives}
        uses = {life.who: turn[who == life.who] for life in lives}
        begun = {tid: int(turns.min()) for tid, turns in uses.items()}

        def apart(one: Life, other: Life) -> bool:
            """Whether memory has been another's before, which has ended, and holds something else now."""
            return one.last < begun[other.who] and (word, other.who, begun[other.who]) in stored

        return any(
            self._unordered(writes[one.who], one, other) and self._unordered(uses[other.who], other, one)
            for one in lives
            for other in lives
            if one is not other and not (_same_stack(one, other, address) or _own_stack(one, other, address))
            if not (self._ranked and (apart(one, other) or apart(other, one)))
        )

    def _unordered(self, turns: NDArray[np.uint64], of: Life, other: Life) -> bool:
        """Whether there is an access that `other`'s beginning or end does not order: who made a task did
        something before it began, and after its end what it had awaited that for."""
        if other.parent != of.who:
            return len(turns) > 0
        until = (other.awaited or self._turn + 1) if other.ends else other.last + 1
        return bool(((turns >= other.born) & (turns < until)).any())


def _same_stack(one: Life, other: Life, address: int) -> bool:
    """Whether the address is on a stack that one had after the other."""
    apart = one.last < other.born or other.last < one.born
    return apart and one.on_stack(address) and other.on_stack(address)


def _own_stack(one: Life, other: Life, address: int) -> bool:
    """Whether the address is on the stack of a task, and the other one is its handlers."""
    return (one.of == other.who or other.of == one.who) and one.on_stack(address)


def learnt(runs: Iterable[tuple[Learner, Outcome]]) -> Learnt:
    """What learning runs have shown: words that any has shown to be shared, and the events of the first one,
    and of the first ones in which tasks had ranks, which may do what they do not do there. One run is not
    made before the one before it is looked at."""
    first: Learner | None = None
    sites: dict[tuple[int, int], int] = {}
    others = [np.zeros(0, SHARED_EVENT)]
    split, crossed = [np.zeros((0, 2), np.uint64)], np.zeros((0, 4), np.uint64)
    words, most, calls, whole, ends = np.zeros(0, np.uint64), 0, 0, True, True
    for number, (learner, outcome) in enumerate(runs):
        first = first or learner
        split.append(learner.split())
        words = np.union1d(words, learner.words())
        crossed = np.concatenate([crossed, learner.overtaken(words)])
        if number in _TOLD_TOO:
            others.append(learner.events(words, sites))
        most = max(most, sum(outcome.manifest.instructions))
        made = outcome.manifest.totals.get("calls")
        calls = max(calls, made if isinstance(made, int) else 0)
        whole &= outcome.end.reason not in ("limit", "time-limit")
        ends &= outcome.end.reason == "exit"
    assert first is not None
    rows = np.concatenate(split)
    places = np.unique(rows[np.isin(rows[:, 0], words), 1])
    shared = SharedWords(words, np.concatenate([first.events(words, sites), *others]))
    crossed = np.unique(crossed, axis=0)
    return Learnt(shared, most, whole, calls=calls, ends=ends, split=places, overtaken=crossed)
