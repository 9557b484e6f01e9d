"""The words of the thing at which a thread waits: a condition variable, a semaphore, a bare futex."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from corebraid.study.shared_rows import WORD, Access

#: Bytes before the word that a thread sleeps at that belong to a condition variable of glibc 2.25 and later
#: (`__g_signals` of sysdeps/nptl/bits/thread-shared-types.h, the last of its words).
_BEFORE = 40


def waited_words(mine: Sequence[Access], address: int) -> set[int]:
    """Addresses of words. mine: what the thread did up to the wait, in order; address: where it sleeps. Those
    right before that which the library call uses in which it waits: a mutex that this gives back lies
    elsewhere."""
    last = address & -WORD
    waiting = takewhile(lambda one: one.caller == mine[-1].caller != 0, reversed(mine))
    return {last} | {one.word for one in waiting if last - _BEFORE <= one.word <= last}
