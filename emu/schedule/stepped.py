"""One step of a task after the other, where somebody decides before each whose it is.

A step is one shared event (`emu.hooks.shared_access`) with what the task does alone afterwards, up to right
before its next one; a system call, or an access to a device register, is one too, and ends the step before
it. Of a Linux program the tasks are its threads, of firmware the cores.

Under TSO each core's store buffer is a task, too, whose steps are the commits of its oldest store (the core's
shadow: Abdulla and others, "Stateless model checking for TSO and PSO", TACAS 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from emu.schedule.policy import Runner, Slice

#: No task: cores have numbers from 0.
NOBODY = -1
#: Instructions after which somebody may say that a step is too long.
_LONGEST = 1 << 17
#: The task that is the store buffer of core 0; those of the other cores follow. Cores have lower numbers,
#: threads higher ones.
BUFFER = 64

#: Tells which cores wait until their store buffers are empty, and which buffers hold stores.
Buffers = Callable[[], tuple[list[int], list[int]]]


def core_of(task: int) -> int:
    """The core whose step this is, or its store buffer's."""
    return task - BUFFER if is_buffer(task) else task


def is_buffer(task: int) -> bool:
    """Whether a task is the store buffer of a core."""
    return BUFFER <= task < 2 * BUFFER


class Stepped(Runner):
    """Asks `choose` before each step: given the tasks that can run, ascending, it says which one does.
    goes_on: asked where a step has been cut short whether it is to go on.

    unfinished: the task whose step that is; -1: none. longest: instructions after which one is cut short.
    buffers: set under TSO. A slice of no length is a commit. left: what that told where the machine ended.
    """

    def __init__(
        self, choose: Callable[[tuple[int, ...]], int], goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        self._choose, self._goes_on = choose, goes_on
        self.unfinished, self.longest = NOBODY, _LONGEST
        self.buffers: Buffers | None = None
        self.left: tuple[list[int], list[int]] = [], []

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """To the end of a step."""
        places = {(core if who is None else who[core]): core for core in runnable}
        if self.buffers is not None:
            waiting, holding = self.buffers()
            places = {task: core for task, core in places.items() if core not in waiting}
            places |= {BUFFER + core: core for core in holding}
        task, self.unfinished = self.unfinished, NOBODY
        if task not in places or not self._goes_on():
            task = self._choose(tuple(sorted(places)))
        length = 0 if self.buffers is not None and is_buffer(task) else self.longest
        return Slice(places[task], length, exact=True, events=1)


def listed(tasks: Sequence[int], left: Mapping[int, int] | None = None) -> Stepped:
    """What makes the steps of a list (`Listed`)."""
    steps = Listed(tasks, left)
    return Stepped(steps, steps.goes_on)


class Listed:
    """Steps of a list; behind them the task goes on that made the last one, as long as it can, then that of
    the lowest number. left: of steps that have no end, by their numbers in the list, after how many times
    that somebody may say so they are left."""

    def __init__(self, tasks: Sequence[int], left: Mapping[int, int] | None = None) -> None:
        self._tasks = iter(enumerate(tasks))
        self._left = left or {}
        self._last, self._number, self._cuts = 0, NOBODY, 0

    def goes_on(self) -> bool:
        """Whether the step under way is not left."""
        self._cuts += 1
        return self._cuts != self._left.get(self._number)

    def __call__(self, enabled: tuple[int, ...]) -> int:
        """Whose step is next. A task that cannot run is left out."""
        self._cuts = 0
        for number, task in self._tasks:
            if task in enabled:
                self._last, self._number = task, number
                return task
        self._number = NOBODY
        if self._last not in enabled:
            self._last = enabled[0]
        return self._last
