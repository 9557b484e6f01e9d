"""What a schedule of few preemptions says of what looks suspicious: a run that passes without one of them
failed because of what came there.

A hint of which two accesses are those around such a preemption (the last one before it, the first one after
it, and what another thread did meanwhile) is told before those that have nothing to do with one, unless it
was so in runs that passed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from corebraid.study.shared_rows import Access

#: Steps of a hint that must be accesses around one preemption.
_ENOUGH = 2


class Hint(Protocol):
    """What is said: pcs has where each of its steps was; passed in how many runs that passed it was so, of
    how many, None where that is not known."""

    @property
    def pcs(self) -> tuple[int, ...]:
        """Of its steps."""

    @property
    def passed(self) -> tuple[int, int] | None:
        """Of runs."""


AnyHint = TypeVar("AnyHint", bound=Hint)


@dataclass(frozen=True)
class Decisive:
    """A preemption without which the run does not fail so. accesses: of the thread before it and after it,
    and of another in between, as far as there are any; in the reduced recording. word: the one in between.
    steps: the same in words."""

    accesses: tuple[Access, ...]
    word: Access
    steps: tuple[str, ...]


def around_first(hints: Iterable[AnyHint], decisive: Sequence[Decisive]) -> list[AnyHint]:
    """Those first that tell of a preemption that decides, and of nothing that runs have which pass; else in
    their order."""
    places = [{access.pc for access in one.accesses} for one in decisive]

    def tells(hint: AnyHint) -> bool:
        if hint.passed is not None and hint.passed[0]:
            return False
        return any(sum(pc in pcs for pc in hint.pcs) >= _ENOUGH for pcs in places)

    return sorted(hints, key=lambda hint: not tells(hint))
