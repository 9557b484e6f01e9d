"""Two words of which each of two threads has used one before the other one changed it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from corebraid.study.causes.decisive import conflict
from corebraid.study.causes.encounters import changes
from corebraid.study.shared_rows import Access

#: Accesses of each thread that are looked at, and instructions within which it relies on what it did.
_MOST, _RELIES = 64, 20_000


def crossing(
    there: Access, here: Access, made: Sequence[Access], died_of: frozenset[int] = frozenset()
) -> tuple[Access, Access] | None:
    """Of `there`, which comes before `here` of another thread, with which it cannot be swapped: what the
    thread of `here` had done before that to another word, and what the thread of `there` did to that one
    later, so that neither thread can have done all of its own first. The nearest ones; None: there are none.
    made: all that are looked at, in order. died_of: words (addresses over 8) of which the first may also come
    behind `here`, and which come before others. After Lu et al., "MUVI" (SOSP 2007), as a cycle of two edges
    (Shasha and Snir, "Efficient and correct execution of parallel programs that share memory", 1988)."""
    first, last = made.index(there), made.index(here)
    before = list(islice((one for one in reversed(made[:last]) if _near(one, here)), _MOST))
    after = islice((one for one in made[last + 1 :] if _near(one, here)), _MOST)
    behind = list(islice((one for one in made[first + 1 :] if _near(one, there)), _MOST))
    deadly = [one for one in (*before, *after) if one.word in died_of]
    for one in (*deadly, *before):
        if one.word == here.word:
            continue
        later = made.index(one)
        for other in behind:
            if conflict(one, other) and made.index(other) > later and _changed(one, other):
                return one, other
    return None


def _near(one: Access, to: Access) -> bool:
    """Whether it is done by the same thread itself, at about the same time."""
    same = one.who == to.who and not one.caller
    return same and (one.core != to.core or abs(one.retired - to.retired) <= _RELIES)


def _changed(one: Access, other: Access) -> bool:
    return changes(one) or changes(other)
