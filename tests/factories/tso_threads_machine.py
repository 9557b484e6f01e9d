"""An abstract TSO machine of bytes, which says what the programs of `tso_threads` can do (Sewell and others:
x86-TSO, CACM 53(7), 2010); of partial orders it knows their definition alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tso_threads import ACCESSES, BASE, Op, Place, Program, with_logs

from corebraid.study.exhaustive.steps import PLACE, Key, Step
from emu.schedule.stepped import BUFFER

#: A step's task and its number among the task's.
Name = tuple[int, int]
#: Of each step that uses what threads share: it, and those before it that do.
Order = frozenset[tuple[Name, frozenset[Name]]]


@dataclass(frozen=True)
class _State:
    """Of each thread the operation that is next, what it has read last, its store buffer: first byte, size,
    value and number of each store, the oldest first. memory: bytes that are not 0. stores: how many each has
    made, watched or not; issued: of those that it has buffered, which of them they were."""

    at: tuple[int, ...]
    read: tuple[int, ...]
    buffers: tuple[tuple[tuple[int, int, int, int], ...], ...]
    memory: frozenset[tuple[int, int]]
    stores: tuple[int, ...]
    issued: tuple[tuple[int, ...], ...]

    def put(self, place: Place, value: int) -> _State:
        """With this in memory."""
        first, size = place
        bytes_ = dict(self.memory) | {first + k: value >> 8 * k & 0xFF for k in range(size)}
        return replace(self, memory=frozenset((at, byte) for at, byte in bytes_.items() if byte))

    def get(self, place: Place) -> int:
        """What memory holds."""
        first, size = place
        bytes_ = dict(self.memory)
        return sum(bytes_.get(first + k, 0) << 8 * k for k in range(size))


def _places_of(op: Op) -> tuple[Place, ...]:
    return (op[1], op[2]) if op[0] == "copy" else (op[1],)


def _changed(values: tuple, at: int, value: object) -> tuple:
    return (*values[:at], value, *values[at + 1 :])


@dataclass(frozen=True)
class Made:
    """A step of the abstract machine. after: the state behind it. uses: see `Footprint`. awaited: how many of
    the thread's stores had to have committed before it."""

    after: _State
    uses: dict[Key, bool]
    awaited: int = 0


class TsoThreads:
    """A program's machine. watched: words (addresses divided by 8) whose stores are buffered; the others are
    memory at once. None: all are. limit: how many stores a buffer holds, those that are memory at once behind
    one that is not among them."""

    def __init__(
        self, program: Program, watched: Iterable[int] | None = None, limit: int | None = None
    ) -> None:
        self.program, self._limit = program, limit
        self._watched = None if watched is None else frozenset(watched)
        self._threads = tuple(
            tuple(with_logs(ops, log)) for ops, log in zip(program.threads, program.logs, strict=True)
        )
        places = [one for ops in program.threads for op in ops if op[0] in ACCESSES for one in _places_of(op)]
        places.append((program.done, 8))
        self._shared = sorted({byte for place in places for byte in self._bytes(place)})
        #: A load has stood where its buffer could answer a part of it.
        self.split = False

    def _bytes(self, place: Place) -> list[int]:
        """Those of them that are watched."""
        first, size = place
        counts = self._watched is None or first >> 3 in self._watched
        return list(range(first, first + size)) if counts else []

    def begin(self) -> _State:
        """Before all steps."""
        n = len(self._threads)
        return _State((0,) * n, (0,) * n, ((),) * n, frozenset(), (0,) * n, ((),) * n)

    def steps(self, state: _State) -> Iterator[tuple[int, Made]]:
        """All that can be made, with whose they are."""
        for thread in range(len(state.at)):
            if (made := self._own(state, thread)) is not None:
                yield thread, made
            if state.buffers[thread]:
                yield BUFFER + thread, self._commit(state, thread)

    def _commit(self, state: _State, thread: int) -> Made:
        (first, size, value, number), *later = state.buffers[thread]
        after = replace(
            state.put((first, size), value), buffers=_changed(state.buffers, thread, tuple(later))
        )
        uses: dict[Key, bool] = dict.fromkeys(self._bytes((first, size)), True)
        # The last one is used by the step that issued it, too.
        return Made(after, uses | {("store", thread, number): True, ("issue", thread, number): True})

    def _own(self, state: _State, thread: int) -> Made | None:
        """The thread's next step; None: it has none, or waits."""
        ops, at = self._threads[thread], state.at[thread]
        if at > len(ops):
            return self._end(state, thread) if at == len(ops) + 1 else None
        op: Op = ops[at] if at < len(ops) else ("xadd", (self.program.done, 8))
        if op[0] == "r":
            return self._load(state, thread, op[1])
        if op[0] in ("w", "inc", "log"):
            return self._store(state, thread, op)
        if op[0] == "copy":
            return self._copy(state, thread, op)
        return None if state.buffers[thread] else self._drained(state, thread, op)

    def _load(self, state: _State, thread: int, place: Place) -> Made | None:
        first, size = place
        for low, length, value, number in reversed(state.buffers[thread]):
            if low < first + size and first < low + length:
                if low <= first and first + size <= low + length:
                    found = value >> 8 * (first - low) & (1 << 8 * size) - 1
                    uses: dict[Key, bool] = {(PLACE, byte): False for byte in self._bytes(place)}
                    return Made(self._saw(state, thread, found), {("store", thread, number): False, **uses})
                self.split = True
                return None
        return Made(self._saw(state, thread, state.get(place)), dict.fromkeys(self._bytes(place), False))

    def _copy(self, state: _State, thread: int, op: Op) -> Made | None:
        """It loads and stores in one step, and leaves no trace of what it read."""
        if (loaded := self._load(state, thread, op[1])) is None:
            return None
        between = replace(loaded.after, at=state.at, memory=state.memory)
        if (stored := self._store(between, thread, ("log", op[2]), seen=True)) is None:
            return None
        return Made(replace(stored.after, read=state.read), loaded.uses | stored.uses, stored.awaited)

    def _store(self, state: _State, thread: int, op: Op, *, seen: bool = False) -> Made | None:
        place, made, issued = op[1], state.stores[thread], state.issued[thread]
        value = op[2] if op[0] == "w" else state.read[thread] + (op[0] == "inc")
        value &= (1 << 8 * place[1]) - 1
        awaited = 0 if self._limit is None else sum(one <= made - self._limit for one in issued)
        held = state.buffers[thread]
        if held and held[0][3] <= awaited:
            return None
        after = replace(self._next(state, thread), stores=_changed(state.stores, thread, made + 1))
        # Nobody else looks at the logs, unless what is seen is copied elsewhere.
        bytes_ = self._bytes(place) if op[0] != "log" or seen else []
        if not bytes_:
            return Made(after.put(place, value), {}, awaited)
        number = len(issued) + 1
        buffers = _changed(state.buffers, thread, (*held, (*place, value, number)))
        after = replace(after, buffers=buffers, issued=_changed(state.issued, thread, (*issued, made)))
        uses: dict[Key, bool] = {(PLACE, byte): False for byte in bytes_}
        return Made(after, uses | {("issue", thread, number): True}, awaited)

    def _drained(self, state: _State, thread: int, op: Op) -> Made:
        """What waits until the buffer is empty."""
        all_, uses = len(state.issued[thread]), dict[Key, bool]()
        if op[0] in ("fence", "call"):
            return Made(self._next(state, thread), uses, all_)
        if op[0] == "protect":
            uses |= dict.fromkeys(self._shared, True)
            uses |= {(PLACE, byte): True for byte in self._shared}
            return Made(self._next(state, thread), uses, all_)
        bytes_, found = self._bytes(op[1]), state.get(op[1])
        if op[0] == "kernel":
            after = self._next(state.put(op[1], BASE + thread), thread)
            return Made(after, dict.fromkeys(bytes_, True), all_)
        if op[0] == "xchg":
            new = op[2] & (1 << 8 * op[1][1]) - 1
            after = self._saw(state.put(op[1], new), thread, found)
        else:
            # The last to come through goes on; the others are gone.
            new, last = found + 1, found == len(state.at) - 1
            after = self._at(state.put(op[1], new), thread, len(self._threads[thread]) + (1 if last else 2))
        return Made(after, dict.fromkeys(bytes_, new != found), all_)

    def _end(self, state: _State, thread: int) -> Made:
        after = self._at(state, thread, len(self._threads[thread]) + 2)
        return Made(after, dict.fromkeys(self._shared, False), len(state.issued[thread]))

    def _saw(self, state: _State, thread: int, value: int) -> _State:
        return self._next(replace(state, read=_changed(state.read, thread, value)), thread)

    def _next(self, state: _State, thread: int) -> _State:
        ops, at = self._threads[thread], state.at[thread] + 1
        if self._limit is None and at < len(ops) and ops[at][0] == "log":
            # Nobody can tell when.
            state, at = state.put(ops[at][1], state.read[thread]), at + 1
        while at < len(ops) and ops[at][0] == "if":
            at += 1 if state.read[thread] else 2
        return self._at(state, thread, min(at, len(ops)))

    @staticmethod
    def _at(state: _State, thread: int, at: int) -> _State:
        return replace(state, at=_changed(state.at, thread, at))

    # -- all of them -----------------------------------------------------------------------------------------

    def printed(self, state: _State) -> bytes:
        """What is printed in the end."""
        memory = dict(state.memory)
        return bytes(memory.get(at + k, 0) for at, size in self.program.spans for k in range(size))

    def outcomes(self) -> set[bytes]:
        """What can be printed; `split` is known then."""
        seen, todo, found = {self.begin()}, [self.begin()], set()
        while todo:
            state = todo.pop()
            after = [made.after for _, made in self.steps(state)]
            if not after and all(at == len(ops) + 2 for at, ops in zip(state.at, self._threads, strict=True)):
                found.add(self.printed(state))
            todo += (new := {one for one in after if one not in seen})
            seen |= new
        return found

    def orders(self, most: int) -> set[Order] | None:
        """All executions; None: more than `most` of their beginnings are to be looked at."""
        seen, todo, found = set(), [(self.begin(), _Sequence())], set()
        while todo:
            state, before = todo.pop()
            ended = True
            for task, made in self.steps(state):
                ended, after = False, (made.after, before.and_then(task, made))
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
            if len(seen) > most:
                return None
            if ended:
                found.add(before.order())
        return found


# -- executions ----------------------------------------------------------------------------------------------

_Uses = frozenset[tuple[Key, bool]]


@dataclass(frozen=True)
class _Sequence:
    """Steps in a row, as far as their order counts: of each its name, what it uses, and which come before."""

    made: frozenset[tuple[Name, _Uses, frozenset[Name]]] = frozenset()

    def and_then(self, task: int, made: Made) -> _Sequence:
        """One more."""
        own, before = 0, set[Name]()
        for name, uses, earlier in self.made:
            own += name[0] == task
            waited = name[0] == BUFFER + task and name[1] <= made.awaited
            conflicts = any(key in made.uses and (made.uses[key] or one) for key, one in uses)
            if name[0] == task or waited or conflicts:
                before |= {name, *earlier}
        step = (task, own + 1), frozenset(made.uses.items()), frozenset(before)
        return _Sequence(self.made | {step})

    def order(self) -> Order:
        """Of those that use something."""
        return _counted({name: (bool(uses), before) for name, uses, before in self.made})


def _counted(steps: Mapping[Name, tuple[bool, frozenset[Name]]]) -> Order:
    """The order of the steps that count, with new numbers: of each whether it does, and those before it."""
    numbers: dict[Name, Name] = {}
    made: dict[int, int] = {}
    for name in sorted(name for name, (counts, _) in steps.items() if counts):
        made[name[0]] = made.get(name[0], 0) + 1
        numbers[name] = name[0], made[name[0]]
    return frozenset(
        (number, frozenset(numbers[one] for one in steps[name][1] if one in numbers))
        for name, number in numbers.items()
    )


def order_of(steps: Sequence[Step], watched: Iterable[int]) -> Order:
    """The same of a run of the program, by the definition. Its threads have numbers in the order in which
    they begin. watched: words, addresses divided by 8."""
    bytes_ = [8 * word + k for word in watched for k in range(8)]
    threads = {tid: k for k, tid in enumerate(sorted({one.task for one in steps if one.task >= 2 * BUFFER}))}
    names: list[Name] = []
    made: dict[Name, tuple[bool, frozenset[Name]]] = {}
    used: list[dict[Key, bool]] = []
    for step in steps:
        task = threads.get(step.task, step.task)
        uses = _memory(step, bytes_)
        before: set[Name] = set()
        for j, name in enumerate(names):
            conflicts = any(key in uses and (uses[key] or one) for key, one in used[j].items())
            if name[0] == task or step.enabled_by == j or conflicts:
                before |= {name, *made[name][1]}
        names.append((task, sum(name[0] == task for name in names) + 1))
        used.append(uses)
        made[names[-1]] = bool(uses), frozenset(before)
    return _counted(made)


def _memory(step: Step, watched: Sequence[int]) -> dict[Key, bool]:
    """What a step uses of memory; where it changes the map, all that is watched there."""
    uses = {
        key: changed
        for key, changed in step.footprint.uses.items()
        if isinstance(key, int) or (isinstance(key, tuple) and key[0] in (PLACE, "store"))
    }
    for byte in watched:
        if any(low <= byte < top for low, top in step.footprint.ranges):
            uses |= {byte: True, (PLACE, byte): True}
    return uses
