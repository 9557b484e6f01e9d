"""A policy that decides nothing before there are two to choose from: what comes before is the same whatever
its seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.schedule.policy import Ahead, Moods, Runner, Scheduler, Slice, Timed

#: Instructions of a slice before.
_LENGTH = 10_000


class Deferred(Runner):
    """Slices of one length as long as one task alone has been met; from then on those of a policy. make:
    makes it, at that moment."""

    def __init__(self, make: Callable[[], Scheduler]) -> None:
        self._make = make
        self._policy: Scheduler | None = None
        self._met: list[int] = []
        self._timed: Timed | None = None
        self.eager = True
        self.follows = False

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The policy's, once there is one."""
        if self._policy is None:
            before = tuple(self._met)
            met = list(dict.fromkeys((*before, *(core if who is None else who[core] for core in runnable))))
            if len(met) < 2:
                self._met = met
                return Slice(runnable[0], _LENGTH, exact=False)
            # Whoever makes it may leave here, and come again.
            policy = self._make()
            self._policy, self._met = policy, met
            if self._timed is not None:
                policy.know_waits(self._timed)
            policy.take_over(before)
            self.eager, self.follows = policy.eager, policy.follows
        return self._policy.next(runnable, counts, events, who)

    def ended(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> None:
        """The policy hears of it."""
        if self._policy is not None:
            self._policy.ended(runnable, counts, events, who)

    def ahead(self) -> Ahead | Moods | None:
        """The policy's."""
        return None if self._policy is None else self._policy.ahead()

    def yielded(self, who: int) -> None:
        """The policy hears of it."""
        if self._policy is not None:
            self._policy.yielded(who)

    def know_waits(self, timed: Timed) -> None:
        """The policy will."""
        self._timed = timed

    def rank(self, who: int) -> float:
        """The policy's; before, all are alike."""
        if self._policy is not None:
            return self._policy.rank(who)
        if who not in self._met:
            self._met.append(who)
        return 0.0
