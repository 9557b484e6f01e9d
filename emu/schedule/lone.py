"""Longer slices while only one core can run: nobody is kept waiting, and what is done between slices is done
less often."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.schedule.policy import Ahead, Moods, Runner, Scheduler, Slice, Timed

#: How much longer slices are: what is between two of them takes longer than one of the usual length.
LONE = 10


class Lone(Runner):
    """A policy whose slices are `factor` times as long where one core alone can run, and `undisturbed` says
    that nothing else is under way that ends with a slice."""

    def __init__(self, policy: Scheduler, factor: int, undisturbed: Callable[[], bool]) -> None:
        self._policy, self._factor, self._undisturbed = policy, factor, undisturbed

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The policy's, made longer."""
        piece = self._policy.next(runnable, counts, events, who)
        if len(runnable) > 1 or not self._undisturbed():
            return piece
        return piece._replace(length=piece.length * self._factor)

    def know_waits(self, timed: Timed) -> None:
        """The policy does."""
        self._policy.know_waits(timed)

    def ahead(self) -> Ahead | Moods | None:
        """The policy's, for as long as nothing else is under way."""
        found = self._policy.ahead() if self._undisturbed() else None
        return found and found._replace(lone=self._factor)
