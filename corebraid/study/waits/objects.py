"""Objects of glibc at which threads wait: where they begin, who has them, what they say of themselves.

Layouts are those of glibc 2.25 and later for 64-bit ISAs (sysdeps/nptl/bits/pthreadtypes.h, struct_mutex.h,
struct_rwlock.h, internaltypes.h).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from corebraid.study.waits.library import WITH_WORD, WITHOUT_PLACE, Kind
from emu.linux.tasks.deadlock import MUTEX_DESTROYED, MUTEX_KIND, MUTEX_OWNER, RWLOCK_WRITER
from emu.linux.tasks.futex import TID_MASK
from emu.linux.tasks.waiting import Awaited, Waiting

#: Of a mutex's kind: PTHREAD_MUTEX_ROBUST_NORMAL_NP and PTHREAD_MUTEX_PRIO_INHERIT_NP.
_ROBUST, _INHERITS = 0x10, 0x20
#: Of a reader-writer lock: words that threads wait at behind its beginning, and the kind that lets readers
#: wait at the first word. Its first word counts readers from bit 3 on.
_RWLOCK_FLAGS, _PREFERS_WRITERS, _READERS_WAIT, _READERS_SHIFT = 48, 2, 4, 3
#: Of a barrier: who has come, the first of this round, and how many are to come.
_BARRIER_ROUND, _BARRIER_COUNT = 4, 8
#: Words at which libstdc++ lets those wait whose objects have no word of their own.
_SHARED_WORDS = "__waiter_pool"
_COND_SIGNALS = (40, 44)
_SIZE = 4


def _word(one: Waiting) -> int:
    """The word at which it waits. Of a condition variable and a reader-writer lock older recordings have
    only the object."""
    if one.word is not None:
        return one.word
    return (one.address or 0) + {Awaited.CONDITION: _COND_SIGNALS[0], Awaited.RWLOCK: 8}.get(one.what, 0)


class Memory(Protocol):
    """What the guest had in memory."""

    def read(self, address: int, size: int) -> bytes | None:
        """`size` bytes from an address on; None: nothing but zeros, or nothing."""


class Objects:
    """Objects in `memory`. name_of: of an address, '' where it has none. living: numbers of the tasks that
    there are; ever: of those that there may have been."""

    def __init__(
        self,
        memory: Memory,
        name_of: Callable[[int], str],
        living: Collection[int],
        ever: Collection[int],
    ) -> None:
        self._name_of = name_of
        self._memory, self._living, self._ever = memory, living, ever

    def told(self, one: Waiting, kind: Kind, own: int | None) -> Waiting:
        """What a thread waits for, by the word at which it does and what the function that waits says. own:
        the object, where that is known."""
        word = _word(one)
        if kind is Kind.CONDITION and one.what in (Awaited.MUTEX, Awaited.RWLOCK):
            # It has been woken, and wants its mutex back.
            kind = Kind.MUTEX
        if kind is Kind.MUTEX:
            return self._mutex(one, word)
        if kind is Kind.RWLOCK:
            return self._rwlock(one, word)
        if kind is Kind.CONDITION:
            # The recorder has seen where it begins, or it is the word.
            known = one.what is Awaited.CONDITION and one.address is not None
            at = one.address if known else word - _COND_SIGNALS[word % 8 == 4]
            return replace(one, what=Awaited.CONDITION, address=at, owner=None, value=None)
        if kind is Kind.BARRIER:
            return self._barrier(one, word)
        if kind in (Kind.SEMAPHORE, Kind.ONCE, Kind.GUARD):
            return self._as(one, kind.value, word)
        if kind in WITHOUT_PLACE:
            return replace(self._as(one, kind.value, word), what=Awaited.CALL, address=None)
        return self._of_word(one, kind, word, own)

    def futex(self, one: Waiting) -> Waiting:
        """The program waits at the word itself, whatever lies beside it."""
        if one.what is Awaited.FUTEX:
            return one
        word = _word(one)
        value = self._number(word)
        return replace(one, what=Awaited.FUTEX, address=word, owner=None, value=value, ended=False)

    def inside(self, one: Waiting, function: str) -> Waiting:
        """A function of a library waits at something of its own."""
        owner = one.owner if one.what is Awaited.MUTEX else None
        return self._as(one, f"a lock inside {function}", _word(one), owner)

    def _as(self, one: Waiting, call: str, at: int, owner: int | None = None) -> Waiting:
        ended = owner is not None and owner not in self._living
        return replace(one, what=Awaited.NAMED, call=call, address=at, owner=owner, value=None, ended=ended)

    def _number(self, address: int) -> int:
        return int.from_bytes(self._memory.read(address, _SIZE) or b"", "little")

    def _owner(self, owner: int) -> int | None:
        return owner if owner in self._living or owner in self._ever else None

    def _mutex(self, one: Waiting, at: int) -> Waiting:
        word, kind = self._number(at), self._number(at + MUTEX_KIND)
        inherits = kind != MUTEX_DESTROYED and kind & _INHERITS
        owner = self._owner(word & TID_MASK if inherits else self._number(at + MUTEX_OWNER))
        if kind == MUTEX_DESTROYED:
            return replace(
                self._as(one, "", at, owner),
                what=Awaited.DESTROYED,
                ended=False if owner is None else owner not in self._living,
            )
        if kind & _ROBUST:
            return self._as(one, "the robust mutex", at, owner)
        return replace(
            one, what=Awaited.MUTEX, address=at, owner=owner, value=None,
            ended=owner is not None and owner not in self._living,
        )  # fmt: skip

    def _rwlock(self, one: Waiting, word: int) -> Waiting:
        if one.what is Awaited.RWLOCK:
            return one
        at = word - 12 if word % 8 == 4 else word - 8
        if word % 8 == 0 and self._number(word + _RWLOCK_FLAGS) == _PREFERS_WRITERS:
            at = word if self._number(word) & _READERS_WAIT else at
        writer, readers = self._number(at + RWLOCK_WRITER), self._number(at) >> _READERS_SHIFT
        if writer:
            return replace(
                one, what=Awaited.RWLOCK, address=at, owner=self._owner(writer), value=None,
                ended=writer not in self._living,
            )  # fmt: skip
        held = f" that {readers} reader{'s have' if readers > 1 else ' has'}," if readers else ""
        return self._as(one, f"the reader-writer lock{held}", at)

    def _barrier(self, one: Waiting, word: int) -> Waiting:
        at = word - _BARRIER_ROUND if word % 8 == _BARRIER_ROUND else word
        come = self._number(at) - self._number(at + _BARRIER_ROUND)
        count = self._number(at + _BARRIER_COUNT)
        told = f" to which {come} of {count} have come," if 0 < come < count else ""
        return self._as(one, f"the barrier{told}", at)

    def _of_word(self, one: Waiting, kind: Kind, word: int, own: int | None) -> Waiting:
        """What libstdc++'s headers and Rust's library wait at: a word of the object, or one of a table that
        all objects share."""
        if own is not None:
            return self._as(one, kind.value, own)
        if _SHARED_WORDS in self._name_of(word):
            return replace(self._as(one, kind.value, word), what=Awaited.SOMEWHERE)
        # The word is the object's first.
        return self._as(one, f"{kind.value} with the word" if kind in WITH_WORD else kind.value, word)
