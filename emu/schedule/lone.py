"""Longer slices while only one core can run: nobody is kept waiting, and what is done between slices is done
less often."""

from __future__ import annotations

from collections.abc import Sequence

from emu.schedule.policy import Runner, Scheduler, Slice


class Lone(Runner):
    """A policy whose slices are `factor` times as long where one core alone can run."""

    def __init__(self, policy: Scheduler, factor: int) -> None:
        self._policy, self._factor = policy, factor

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The policy's, made longer."""
        piece = self._policy.next(runnable, counts, events, who)
        return piece._replace(length=piece.length * self._factor) if len(runnable) == 1 else piece
