"""One step of a task after the other, where somebody decides before each whose it is.

A step is one shared event (`emu.hooks.shared_access`) with what the task does alone afterwards, up to right
before its next one; a system call, or an access to a device register, is one too, and ends the step before
it. Of a Linux program the tasks are its threads, of firmware the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.schedule.policy import Runner, Slice

#: No task: cores have numbers from 0.
NOBODY = -1
#: Instructions after which somebody may say that a step is too long.
_LONGEST = 1 << 17


class Stepped(Runner):
    """Asks `choose` before each step: given the tasks that can run, ascending, it says which one does.
    goes_on: asked where a step has been cut short whether it is to go on.

    unfinished: the task whose step that is; -1: none. longest: instructions after which one is cut short.
    """

    def __init__(
        self, choose: Callable[[tuple[int, ...]], int], goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        self._choose, self._goes_on = choose, goes_on
        self.unfinished, self.longest = NOBODY, _LONGEST

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """To the end of a step."""
        places = {(core if who is None else who[core]): core for core in runnable}
        task, self.unfinished = self.unfinished, NOBODY
        if task not in places or not self._goes_on():
            task = self._choose(tuple(sorted(places)))
        return Slice(places[task], self.longest, exact=True, events=1)


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
