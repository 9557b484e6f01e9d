"""One step of a task after the other, where somebody decides before each whose it is.

A step is one shared event (`emu.hooks.shared_access`) with what the task does alone afterwards, up to right
before its next one; a system call is one too, and ends the step before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.schedule.policy import Runner, Slice

#: Longer than any step, instructions.
_LONGEST = 1 << 40


class Stepped(Runner):
    """Asks `choose` before each step: given the tasks that can run, ascending, it says which one does.

    unfinished: the task whose step was cut short by something else, and goes on at once; 0: none.
    """

    def __init__(self, choose: Callable[[tuple[int, ...]], int]) -> None:
        self._choose = choose
        self.unfinished = 0

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """To the end of a step."""
        places = {(core if who is None else who[core]): core for core in runnable}
        task = self.unfinished if self.unfinished in places else self._choose(tuple(sorted(places)))
        self.unfinished = 0
        return Slice(places[task], _LONGEST, exact=True, events=1)


class Listed:
    """Steps of a list; behind them the task goes on that made the last one, as long as it can, then that of
    the lowest number."""

    def __init__(self, tasks: Sequence[int]) -> None:
        self._tasks = iter(tasks)
        self._last = 0

    def __call__(self, enabled: tuple[int, ...]) -> int:
        """Whose step is next. A task that cannot run is left out."""
        for task in self._tasks:
            if task in enabled:
                self._last = task
                return task
        if self._last not in enabled:
            self._last = enabled[0]
        return self._last
