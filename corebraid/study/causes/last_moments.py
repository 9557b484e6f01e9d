"""The last moments of a run that ended in a deadlock or by a signal: who did what to what it ended over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile

from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import INPUT, INPUT_CALL
from corebraid.names.threads import thread_at
from corebraid.study.causes.waited_words import waited_words
from corebraid.study.ended import end_place
from corebraid.study.shared_rows import WORD, Access
from emu.linux.tasks.waiting import Awaited, Waiting, cycle
from isa.abi import LinuxAbi
from isa.decoder import fault_decoder_of
from isa.registry import isa_named, linux_abi_of
from isa.table import Isa
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.pause import CoreState, states_at

#: Calls that take memory away, and how many of the last ones of each core are looked at.
_TAKING = {"munmap", "mremap", "mprotect"}
#: Of the signals that such an access has, the exit codes; and rights that mprotect may leave (PROT_EXEC).
_BAD_ACCESS, _NO_RIGHTS = (128 + 7, 128 + 11), (0, 4)
#: In the names of functions that wait for a condition variable, and that wake one who does.
_WAITS, _SIGNALS = "!pthread_cond_", "!pthread_cond_signal"
#: What is said of the mutexes of several threads each of which has what another one waits for, and of one
#: that has waited for its own.
_CIRCLE = "{word}: taken by one thread and waited for by another, in a circle"
_ITS_OWN = "the mutex {word}: taken, and waited for by the thread that has it"
_KEPT = "the mutex {word}: kept by one thread that waits for what others do, one of which waits for it"
_TAKEN = "{word}: counted down by one thread that waits for what others do, one of which waits for it"
_LOOKING = "{word}: written by one thread, and looked at by another that waits, in a circle"
#: Addresses below are no memory's.
_LEAST_ADDRESS = 1 << 16
_MOST_CALLS = 8
#: Of a semaphore's word, what counts; those who wait are counted above.
_COUNT = 0xFFFFFFFF
#: Shared reads that a thread made last, of which one may have decided that it waits; of these the last, and
#: the very last.
_MOST_READS, _FEW_READS, _LAST_READS = 16, 4, 2


@dataclass(frozen=True)
class Note:
    """A step that is no shared access. pc: where."""

    who: int
    did: str
    pc: int

    def text(self, place: Callable[[int], str], who: Callable[[int], str]) -> str:
        """In words."""
        return f"{who(self.who)} {self.did} {place(self.pc)}"


@dataclass(frozen=True)
class Held:
    """A step at a lock. access: which took it, or tried to."""

    access: Access
    took: bool

    @property
    def pc(self) -> int:
        """Where."""
        return self.access.pc

    @property
    def did(self) -> str:
        """In words, of the lock."""
        return "took" if self.took else "waits for"


class Says(IntEnum):
    """How much a moment says of why threads wait for ever: less than who takes a lock before whom; more than
    that, since it is about what a thread did last before it waited; more than what else decides."""

    LITTLE = 0
    MORE = 1
    MOST = 2


@dataclass(frozen=True)
class Moment:
    """title: with {word} for the names of `address` and `others`. certain: it alone is why the run ended
    so. says: how much. waited: words at which a thread waits, of which what decides may say more."""

    address: int
    title: str
    steps: tuple[Access | Note | Held, ...]
    certain: bool = False
    others: tuple[int, ...] = ()
    says: Says = Says.LITTLE
    waited: frozenset[int] = frozenset()


def last_moments(
    recording: Recording, accesses: list[Access], waits: Sequence[Waiting], name: Callable[[int], str],
    own: Callable[[int], bool], passed: Sequence[list[Access]] = (),
) -> Iterator[Moment]:  # fmt: skip
    """What there is to say of how the recording ended. waits: in a deadlock, what each thread waits for.
    name: of the function at a place; own: whether that is of the program's own code. passed: accesses of
    runs that did not fail. Raises FormatError, Divergence."""
    end = recording.manifest.end
    if end is None or not recording.manifest.linux:
        return
    if end.reason == "deadlock":
        looks = [a for a in accesses if a.reads and not a.caller and own(a.pc)]
        ends = _Ends([accesses, *passed])
        yield from _held(waits, accesses, ends)
        # Who waits for somebody in particular does not wait until something is another.
        waits = tuple(one for one in waits if one.owner is None)
        yield from _taken(waits, accesses, ends)
        yield from _passed_over(waits, accesses, looks, name)
        yield from _missed(waits, accesses, looks)
        yield from _looking(waits, accesses, looks)
    elif end.reason == "signal" and end.exit_code in _BAD_ACCESS:
        yield from _gone(recording, accesses)


class _Ends:
    """Who may end a wait: who uses what it is at, in any of some runs, of which the first one is that in
    which threads wait."""

    def __init__(self, runs: Sequence[list[Access]]) -> None:
        self._runs = runs

    def may(self, who: int, waiting: Waiting | None) -> bool:
        """Whether a thread may do what another one waits for."""
        words = self.words(waiting)
        return any(one.who == who and one.word in words for run in self._runs for one in run)

    def words(self, waiting: Waiting | None) -> frozenset[int]:
        """Addresses of the words of what a thread waits for."""
        if waiting is None or waiting.address is None:
            return frozenset()
        made = [one for one in self._runs[0] if one.who == waiting.tid]
        return frozenset(waited_words(made, waiting.address))


def _held(waits: Sequence[Waiting], accesses: list[Access], ends: _Ends) -> Iterator[Moment]:
    """Mutexes of the deadlock: who took them, and who waits for them. Those of a circle of threads first, and
    together: none of them alone would be a deadlock."""
    ring, by_thread = cycle(waits), {one.tid: one for one in waits}
    steps = tuple(step for tid in ring for step in _of_lock(by_thread[tid], accesses))
    if words := tuple(dict.fromkeys(step.access.address for step in steps if isinstance(step, Held))):
        title = _ITS_OWN if len(ring) == 1 else _CIRCLE
        yield Moment(words[0], title, steps, certain=True, others=words[1:])
    told = set[int]()
    for one in (it for it in waits if it.tid not in ring):
        mutex = _of_lock(one, accesses) if one.what is Awaited.MUTEX else []
        if not mutex or not isinstance(mutex[0], Held):
            continue
        address = mutex[0].access.address
        owner = by_thread.get(one.owner or 0)
        kept = _kept_while(owner, accesses) if address not in told and ends.may(one.tid, owner) else None
        if kept is not None:
            told.add(address)
            waited = ends.words(owner)
            yield Moment(address, _KEPT, (mutex[0], kept, *mutex[1:]), says=Says.MOST, waited=waited)
        else:
            yield Moment(address, "the mutex {word}: taken, and waited for", tuple(mutex))


def _taken(waits: Sequence[Waiting], accesses: list[Access], ends: _Ends) -> Iterator[Moment]:
    """Semaphores, or what is like one, that a thread waits at, and that another one has counted down last,
    which waits for ever at something else. waits: for nobody in particular."""
    at = {one.tid: one for one in waits}
    for one in waits:
        if one.address is None:
            continue
        here = [a for a in accesses if a.word == one.address & -WORD and a.atomic and a.caller]
        changed = [a for a in here if (a.old ^ a.new) & _COUNT]
        last = changed[-1] if changed else None
        if last is None or (last.old & _COUNT) - (last.new & _COUNT) != 1 or last.who == one.tid:
            continue
        taker = at.get(last.who)
        tried = next((a for a in reversed(here) if a.who == one.tid and a.at > last.at), None)
        kept = _kept_while(taker, accesses) if ends.may(one.tid, taker) else None
        if taker is None or taker.address == one.address or kept is None or tried is None:
            continue
        steps = (Held(last, True), kept, Held(tried, False))
        yield Moment(one.address, _TAKEN, steps, says=Says.MORE, waited=ends.words(taker))


def _kept_while(owner: Waiting | None, accesses: list[Access]) -> Note | None:
    """Where who has a mutex waits for something that anybody might do, the others among them who wait for
    the mutex. None: it waits for somebody in particular, or for nobody."""
    if owner is None or owner.owner is not None or owner.what in (Awaited.MUTEX, Awaited.THREAD):
        return None
    last = next((a for a in reversed(accesses) if a.who == owner.tid), None)
    place = 0 if last is None else last.caller or last.pc
    return Note(owner.tid, "has it, and waits for something else, after", place) if place else None


def _of_lock(one: Waiting, accesses: list[Access]) -> list[Held | Note]:
    """What a thread waits for that another one has: how that took it, and who waits. Of what has no owner, or
    none who is known to have taken it, nothing; of a thread's end that it is waited for."""
    if one.what is Awaited.THREAD:
        last = next((a for a in reversed(accesses) if a.who == one.tid), None)
        place = 0 if last is None else last.caller or last.pc
        return [Note(one.tid, f"waits for thread {one.owner} to end, after", place)] if place else []
    if one.address is None or one.owner is None:
        return []
    here = [a for a in accesses if a.word == one.address & -8]
    took = [a for a in here if a.who == one.owner and a.atomic and not a.old]
    tried = [a for a in here if a.who == one.tid and a.writes]
    return [Held(took[-1], True), Held(tried[-1], False)] if took and tried else []


def _passed_over(
    waits: Iterable[Waiting], accesses: list[Access], looks: list[Access], name: Callable[[int], str]
) -> Iterator[Moment]:
    """Condition variables that were signalled while a thread waited for them that waits for ever now, though
    what it had looked at is not what it was. looks: reads of the program's own."""
    told = set[tuple[int, int]]()
    for waiter in (one.tid for one in waits):
        mine = [a for a in accesses if a.who == waiter]
        made = list(takewhile(lambda a, last=mine[-1:]: a.caller == last[0].caller != 0, reversed(mine)))  # type: ignore[misc]
        # From its first indivisible access there on it is counted among those that wait.
        counted = next((a for a in reversed(made) if a.atomic and _WAITS in name(a.pc)), None)
        if counted is None or not _looks_other([a for a in looks if a.who == waiter], accesses):
            continue
        words = {a.word for a in made}
        later = [a for a in accesses if a.at > counted.at and a.who != waiter and a.word in words]
        signals = [a for a in later if _SIGNALS in name(a.pc)]
        if signals and (call := (signals[-1].who, signals[-1].caller)) not in told:
            told.add(call)
            title = "{word}: signalled while this thread waited for it, but another one was woken"
            yield Moment(signals[-1].address, title, (counted, signals[-1]), says=Says.MORE)


def _looks_other(mine: list[Access], accesses: list[Access]) -> bool:
    """Whether something that a thread read last is another now. mine: its reads."""
    for read in mine[-_FEW_READS:]:
        writes = [a for a in accesses if a.at > read.at and a.writes and a.overlaps(read)]
        if writes and writes[-1].who != read.who and writes[-1].new != read.new:
            return True
    return False


def _missed(waits: Iterable[Waiting], accesses: list[Access], looks: list[Access]) -> Iterator[Moment]:
    """What a thread read last before it began to wait, and another changed after that."""
    for waiter in (one.tid for one in waits):
        mine = [a for a in looks if a.who == waiter]
        for read in reversed(mine[-_MOST_READS:]):
            later = [
                a for a in accesses
                if a.at > read.at and a.who != waiter and a.writes and a.overlaps(read) and a.new != read.new
            ]  # fmt: skip
            if later:
                title = "{word}: changed after a thread had looked at it that waits for ever now"
                says = Says.MORE if read in mine[-_LAST_READS:] else Says.LITTLE
                yield Moment(read.address, title, (read, later[0]), says=says)
                break


def _looking(waits: Sequence[Waiting], accesses: list[Access], looks: list[Access]) -> Iterator[Moment]:
    """Threads that wait for each other in a circle where nobody has a lock: each has looked last at what the
    next one, which waits, too, had written, and nobody has changed since."""
    seen = dict[int, tuple[Access, Access]]()
    for tid in (one.tid for one in waits):
        mine, others = [a for a in looks if a.who == tid], {one.tid for one in waits} - {tid}
        if (found := _looked_at(mine[-_LAST_READS:], others, accesses)) is not None:
            seen[tid] = found
    edges = [Waiting(tid, "", Awaited.FUTEX, owner=wrote.who) for tid, (wrote, _) in seen.items()]
    ring = [seen[tid] for tid in cycle(edges)]
    if len(ring) > 1:
        words = [read.address for _, read in ring]
        steps = tuple(step for pair in ring for step in pair)
        yield Moment(words[0], _LOOKING, steps, others=tuple(words[1:]), says=Says.MOST)


def _looked_at(
    reads: Sequence[Access], others: set[int], accesses: list[Access]
) -> tuple[Access, Access] | None:
    """(the write, the read) of the last one that finds what one of some other threads has written, which is
    there still. reads: of a thread."""
    for read in reversed(reads):
        wrote = next((a for a in reversed(accesses) if a.writes and a.overlaps(read)), None)
        if wrote is not None and wrote.who in others and wrote.at < read.at:
            return wrote, read
    return None


def _gone(recording: Recording, accesses: list[Access]) -> Iterator[Moment]:
    """An access to memory that another thread has taken away."""
    place = end_place(recording)
    if place is None:
        return
    state = states_at(recording, place.core, (place.count,)).get(place.count)
    if state is None:
        return
    isa = isa_named(recording.manifest.isa)
    abi = linux_abi_of(isa)
    pages = {address & -PAGE_BYTES for address in _touched(state, isa) if address >= _LEAST_ADDRESS}
    for core, name, at in _calls(recording, abi):
        start, size, rights = (at.registers[register] for register in abi.arguments[:3])
        if name == "mprotect" and rights not in _NO_RIGHTS:
            continue
        hit = next((page for page in pages if start <= page < start + max(size, 1)), None)
        if hit is None:
            continue
        before = [a for a in accesses if a.address & -PAGE_BYTES == hit]
        mine = [a for a in before if a.core == place.core][-1:]
        others = [a for a in before if a.core != place.core][-1:]
        who = thread_at(recording, core, at.count)
        last = thread_at(recording, place.core, place.count)
        steps = sorted([*mine, *others], key=lambda a: a.at)
        yield Moment(
            (steps[-1].address if steps else hit),
            "{word}: used after its memory was given back",
            (
                *steps,
                Note(who, f"gave the memory back ({name} of {start:#x}, {size} bytes) at", at.pc),
                Note(last, "used it at", place.pc),
            ),
        )
        return


def _touched(state: CoreState, isa: Isa) -> list[int]:
    registers = state.registers
    return fault_decoder_of(isa).accessed_addresses(state.code, state.pc, lambda name: registers[name])


def _calls(recording: Recording, abi: LinuxAbi) -> Iterator[tuple[int, str, CoreState]]:
    """(core, name, the core before it) of each core's last calls that take memory away, the last first."""
    for core in range(recording.manifest.n_cores):
        found: list[tuple[int, str]] = []
        for rows, _ in iter_core_records(recording, core):
            made = rows[(rows["kind"] == INPUT) & (rows["flags"] == INPUT_CALL)]
            for row in made:
                name = abi.calls.get(int(row["addr"]), "")
                if name in _TAKING:
                    found.append((int(row["count"]), name))
        last = found[-_MOST_CALLS:]
        states = states_at(recording, core, [count for count, _ in last]) if last else {}
        for count, name in reversed(last):
            if count in states:
                yield core, name, states[count]
