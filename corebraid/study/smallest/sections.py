"""What threads do under a lock: of two accesses that take one, why it matters whose comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product

from corebraid.names.program import GuestProgram
from corebraid.study.causes.decisive import conflict
from corebraid.study.causes.encounters import changes
from corebraid.study.shared_rows import Access

#: Shared accesses within which a thread does what it would have done before.
_LATER = 5_000
#: In the names of functions that give a lock back.
_GIVES_BACK = "unlock"
#: What names of functions of the C library, and of what is beneath it, begin with.
_C_LIBRARY = ("libc.so", "libpthread", "ld-linux", "ld.so")
Pair = tuple[Access, Access]


class LockCalls:
    """What calls of the C library do with a lock. program: whose names they have, None: nothing is known by
    name. data_decides: the run does not end because somebody waits for a lock for ever."""

    def __init__(self, program: GuestProgram | None = None, *, data_decides: bool = True) -> None:
        self._program, self.data_decides = program, data_decides

    def gives_back(self, access: Access) -> bool:
        """Whether an access to a lock's word is in a function that gives locks back."""
        return _GIVES_BACK in self._name(access)

    def is_c(self, access: Access) -> bool:
        """Whether it is made by the C library itself, which keeps much that is nobody else's."""
        return self._program is None or self._name(access).startswith(_C_LIBRARY)

    def _name(self, access: Access) -> str:
        return (self._program and self._program.symbols.name(access.pc)) or ""


def is_lock(one: Access, other: Access) -> bool:
    """Whether two accesses are a library's to what it keeps threads apart with."""
    return one.word == other.word and all(a.atomic and a.caller for a in (one, other))


class Sections:
    """Of a run: made, what is looked at of it, in order."""

    def __init__(self, made: Sequence[Access], calls: LockCalls) -> None:
        self._made, self._calls = made, calls

    def pairs(self, there: Access, here: Access) -> Iterator[Pair]:
        """Of two accesses that take one lock, two that cannot be swapped of what is done under it: by the
        program itself first, then by libraries for it. Where there are none, but the second thread has to
        wait, what others did meanwhile, the last first, and what it does then; or what it does later, which
        it would have done before. Where it does nothing there any more, what the first one reads there that
        others wrote. Where the first one gives the lock back, what the second one does before it goes on:
        else the second one would have had to wait, and it would have gone on."""
        mine, theirs = (self._section(self._made.index(one)) for one in (there, here))
        if mine is None:
            yield from self._gone_on(there, here) if self._calls.data_decides else ()
            return
        theirs = theirs or []
        found = [(one, other) for other, one in product(theirs, mine) if conflict(one, other)]
        if not found and self._calls.data_decides:
            found = self._while_it_waits(there, here, theirs) if theirs else self._read_of_others(mine)
            found = found or self._later(mine, here, theirs)
        yield from sorted(found, key=lambda pair: sum(bool(one.caller) for one in pair))

    def _while_it_waits(self, there: Access, here: Access, section: Sequence[Access]) -> list[Pair]:
        """section: what the thread of `here` does when it has the lock."""
        if changes(here) and here.old == 0:
            return []
        waits = self._made[self._made.index(there) + 1 : self._made.index(section[0])]
        meanwhile = [one for one in reversed(waits) if self._is_data(one)]
        return [(one, other) for other, one in product(section, meanwhile) if conflict(one, other)]

    def _later(self, mine: Sequence[Access], here: Access, section: Sequence[Access]) -> list[Pair]:
        """The first that the thread of `here` does after its section that cannot be swapped with one of
        `mine`."""
        begin = self._made.index(section[-1] if section else here) + 1
        after = self._made[begin : begin + _LATER]
        own = (one for one in after if one.who == here.who and self._is_data(one))
        return next(([(one, other)] for other in own for one in reversed(mine) if conflict(one, other)), [])

    def _gone_on(self, there: Access, here: Access) -> list[Pair]:
        """The first that the thread of `there` does behind it that cannot be swapped with something that the
        other one has done from `here` on, and the last that is; then the first ones to other words."""
        behind = self._made[self._made.index(here) + 1 :][:_LATER]
        done, found = list[Access](), dict[int, Pair]()
        for one in filter(self._is_data, behind):
            if one.who == here.who:
                done.append(one)
            elif one.who == there.who:
                met = next((other for other in reversed(done) if conflict(other, one)), None)
                if met is not None:
                    found.setdefault(met.word, (met, one))
        return list(found.values())

    def _read_of_others(self, section: Sequence[Access]) -> list[Pair]:
        found = []
        for read in (one for one in section if one.reads):
            before = reversed(self._made[: self._made.index(read)])
            wrote = next((one for one in before if changes(one) and one.overlaps(read)), None)
            if wrote is not None and wrote.who != read.who:
                found.append((wrote, read))
        return found

    def _section(self, begin: int) -> list[Access] | None:
        """What the thread of the access at `begin`, which is to a lock's word, does between the end of the
        call of the library that the access is in, and the next call that touches the word. None if the
        first one gives the lock back. Which call that is tells better than values: who gives a reader-writer
        lock to somebody who waits changes its word for him."""
        first, found = self._made[begin], list[Access]()
        last = first
        for one in self._made[begin:]:
            if one.who != first.who:
                continue
            if one.word != first.word or not one.caller:
                if self._is_data(one):
                    found.append(one)
            elif found or one.caller != first.caller:
                break
            else:
                last = one
        gives_back = (last.new == 0 and changes(last)) or self._calls.gives_back(last)
        return None if gives_back else found

    def _is_data(self, access: Access) -> bool:
        """Whether it is to something of the program's: itself, or a library for it; not to a lock."""
        taken = access.atomic and self._calls.is_c(access)
        return not access.caller or (access.word in self._data and not taken)

    @cached_property
    def _data(self) -> set[int]:
        """Words that not only the C library uses."""
        return {one.word for one in self._made if not (one.caller and self._calls.is_c(one))}
