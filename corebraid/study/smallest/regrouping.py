"""The same work in fewer turns: two turns of a task that others lie between, taken as one.

After Jalbert and Sen, "A trace simplification technique for effective debugging of concurrent programs" (FSE
2010): a schedule can be a smallest one of its parts, and yet one that lets tasks take their turns in another
order needs fewer. Knows nothing of runs: what becomes of such a schedule is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emu.schedule.noting import Stay


def regrouped(stays: Sequence[Stay]) -> Iterator[list[Stay]]:
    """Orders with a stay less, as far as they can be told beforehand: of each two stays of one task that
    follow each other, the second right behind the first, and then the first right before the second."""
    for first, one in enumerate(stays):
        second = next((k for k in range(first + 1, len(stays)) if stays[k].who == one.who), 0)
        if second > first + 1:
            before, between, behind = stays[:first], stays[first + 1 : second], stays[second + 1 :]
            whole = stays[second]._replace(begin=one.begin)
            yield _joined([*before, whole, *between, *behind])
            yield _joined([*before, *between, whole, *behind])


def _joined(stays: Sequence[Stay]) -> list[Stay]:
    """A task's stays that have come to follow each other as one."""
    found: list[Stay] = []
    for stay in stays:
        if found and found[-1].who == stay.who and not found[-1].yields:
            found.pop()
        found.append(stay)
    return found
