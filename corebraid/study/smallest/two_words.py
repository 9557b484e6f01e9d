"""Two words of which each of two threads has used one before the other one changed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from corebraid.study.causes.decisive import conflict
from corebraid.study.causes.encounters import changes
from corebraid.study.shared_rows import Access

#: Accesses of each thread that are looked at, among so many on each side; and instructions within which a
#: thread relies on what it did.
_MOST, _FAR, _RELIES = 64, 5_000, 20_000
#: An access, and its place among all.
Placed = tuple[int, Access]


def crossing(
    there: Access, here: Access, made: Sequence[Access], died_of: frozenset[int] = frozenset()
) -> tuple[Access, Access] | None:
    """Of `there`, which comes before `here` of another thread, with which it cannot be swapped: what the
    thread of `here` had done before that to another word, and what the thread of `there` did to that one
    later, so that neither thread can have done all of its own first. The nearest ones; None: there are none.
    made: all that are looked at, in order. died_of: addresses of words of which the first may also come
    behind `here`, and which come before others. After Lu et al., "MUVI" (SOSP 2007), as a cycle of two edges
    (Shasha and Snir, "Efficient and correct execution of parallel programs that share memory", 1988)."""
    first, last = made.index(there), made.index(here)
    before = _near(here, made, range(last - 1, max(last - _FAR, 0) - 1, -1))
    after = _near(here, made, range(last + 1, min(last + _FAR, len(made))))
    behind = _near(there, made, range(first + 1, min(first + _FAR, len(made))))
    deadly = [it for it in (*before, *after) if it[1].word in died_of]
    for k, one in (*deadly, *before):
        if one.word == here.word:
            continue
        for place, other in behind:
            if place > k and conflict(one, other) and (changes(one) or changes(other)):
                return one, other
    return None


def _near(to: Access, made: Sequence[Access], places: Iterable[int]) -> list[Placed]:
    """What at these places the same thread does itself, at about the same time."""
    own = ((k, made[k]) for k in places if made[k].who == to.who and not made[k].caller)
    near = ((k, one) for k, one in own if one.core != to.core or abs(one.retired - to.retired) <= _RELIES)
    return list(islice(near, _MOST))
