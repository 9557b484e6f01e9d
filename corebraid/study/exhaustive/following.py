"""One run as a plan asks for it: chooses whose step is next, and takes down what each step touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from corebraid.study.exhaustive.calls import uses_of
from corebraid.study.exhaustive.observing import (
    Observer,
    is_fetch,
    is_split,
    touched_by,
    uses_in,
    watched_rows,
)
from corebraid.study.exhaustive.racing import Parts, Words, racing_words
from corebraid.study.exhaustive.spinning import Spins
from corebraid.study.exhaustive.steps import Execution, Footprint, Key, Plan, Step
from corebraid.study.exhaustive.trace import Trace, asleep_after
from emu.linux.tasks.task import State
from emu.native.state import CODE, PAGE_SHIFT

if TYPE_CHECKING:
    from emu.linux.machine import LinuxMachine
    from emu.linux.stepping import Stepping

#: Steps of a run at most: what makes more is taken not to end.
MOST_STEPS = 20_000


class OverError(Exception):
    """The run is not to go on. why: one of the below."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


#: All that can run are asleep; all that can run have gone round in a circle; there are too many steps.
ASLEEP, CIRCLE, ENDLESS = "asleep", "circle", "endless"
#: A step was so long that its task may have waited for something that is not watched.
STALLED = "stalled"
#: Turns that tasks take then, and instructions of one.
_TURNS, _TURN = 1_000, 1_000


@dataclass(frozen=True)
class Followed:
    """What was learnt of a run. circle: its tasks go round in circles for ever; spun: one of them would have
    gone on, in a run that is another one's equal. endless, stalled: it was broken off. racing: words that
    should have been watched; atomic: those of them that are changed atomically. doubts: why nothing can be
    proven of the program. fixed: choices that were not tried. splits: pcs of instructions that were taken as
    indivisible and are not. instructions: of all cores, at its end."""

    execution: Execution
    circle: bool = False
    spun: bool = False
    endless: bool = False
    stalled: bool = False
    racing: tuple[int, ...] = ()
    atomic: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    splits: tuple[int, ...] = ()
    instructions: int = 0


@dataclass
class _Seen:
    """What gathers during a run."""

    steps: list[Step] = field(default_factory=list)
    enabled: list[tuple[int, ...]] = field(default_factory=list)
    touched: list[Parts] = field(default_factory=list)
    doubts: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    splits: set[int] = field(default_factory=set)
    fetched: set[int] = field(default_factory=set)
    #: Memory whose mapping was changed, with the core that did.
    ranges: list[tuple[int, tuple[int, int]]] = field(default_factory=list)


class Follower:
    """Follows one plan on a machine that runs step by step. watched: the words whose accesses are events,
    ascending. patience: instructions of a step at most."""

    def __init__(
        self, machine: LinuxMachine, observer: Observer, plan: Plan, watched: Words, patience: int
    ) -> None:
        assert machine.steps is not None
        self._machine, self._observer, self._plan, self._watched = machine, observer, plan, watched
        self._stepping: Stepping = machine.steps
        self._patience = patience
        #: How many turns tasks may yet take.
        self._turns = 0
        self._stalled = False
        self._seen = _Seen()
        self._sleep = dict(plan.sleep)
        self._spins = Spins()
        #: Since which step a task can go on, -1 for all of them; who could before the step under way.
        self._since: dict[int, int] = {}
        self._could: set[int] = set()
        #: Tasks that can go on since time has passed.
        self._late: set[int] = set()
        self._begun: tuple[int, int, int] | None = None
        self._over = ""
        observer.active = True

    def stand(self) -> int:
        """The step under way is over. Returns how many were made."""
        self._end_step()
        return len(self._seen.steps)

    def is_new(self, steps: int) -> bool:
        """Whether the run stands so many steps behind its plan's branch, where no other has been."""
        return self._plan.branch > 0 and len(self._seen.steps) >= self._plan.branch + steps

    def follow(self, plan: Plan) -> None:
        """Go on with another plan, whose branch has not been passed."""
        if plan is not self._plan:
            self._plan, self._sleep = plan, dict(plan.sleep)

    # -- choosing ------------------------------------------------------------------------------------

    def choose(self, enabled: tuple[int, ...]) -> int:
        """Whose step is next. Raises OverError."""
        self._end_step()
        if not self._turns:
            enabled = tuple(task for task in enabled if task not in self._spins.stuck)
        self._note_enabled(set(enabled))
        if not enabled:
            self._note_deadlines()
            self._stop(CIRCLE)
        if len(self._seen.steps) >= MOST_STEPS:
            self._stop(ENDLESS)
        task = self._pick(enabled)
        self._seen.enabled.append(enabled)
        number = self._machine.tasks().index(task)
        self._begun = task, number, self._machine.cores[number].count
        self._stepping.served = None
        return task

    def _note_deadlines(self) -> None:
        """Nobody but tasks that go round in circles can run: time would go on."""
        tasks = self._machine.process.tasks.values()
        blocked = (task.wait for task in tasks if task.state is State.BLOCKED)
        if any(wait is not None and wait.deadline is not None for wait in blocked):
            self._seen.doubts.add("threads spin while another waits with a time limit")

    def goes_on(self) -> bool:
        """Whether the step under way is not too long. From the first on that is, the run is no step by step:
        tasks take turns, to show what they share."""
        if self._begun is None:
            return True
        _, number, count = self._begun
        long = self._machine.cores[number].count - count
        if long >= self._patience and not self._turns:
            self._turns, self._stalled = _TURNS, True
            self._stepping.policy.longest = _TURN
        return not self._turns or long < _TURN

    def _stop(self, why: str) -> None:
        self._over = why
        raise OverError(why)

    def _note_enabled(self, enabled: set[int]) -> None:
        passed, self._stepping.passed = self._stepping.passed, False
        new = enabled - self._could
        for task in new:
            self._since[task] = -1 if passed else len(self._seen.steps) - 1
        if passed:
            self._late |= new
        self._could = enabled

    def _pick(self, enabled: tuple[int, ...]) -> int:
        index = len(self._seen.steps)
        if self._turns:
            self._turns -= 1
            if not self._turns:
                self._stop(STALLED)
            last = self._seen.steps[-1].task
            return next((task for task in enabled if task > last), enabled[0])
        if index < len(self._plan.tasks):
            task = self._plan.tasks[index]
            # One that cannot run is told by whoever compares the run with its plan.
            return task if task in enabled else enabled[0]
        awake = [task for task in enabled if task not in self._sleep]
        if not awake:
            self._stop(ASLEEP)
        last = self._seen.steps[-1].task if self._seen.steps else 0
        return last if last in awake else awake[0]

    # -- what a step was -----------------------------------------------------------------------------

    def _end_step(self) -> None:
        """The step under way is over: what it touched."""
        if self._begun is None:
            return
        (task, number, count), self._begun = self._begun, None
        seen, index = self._seen, len(self._seen.steps)
        cores, kernel = self._observer.step()
        seen.doubts |= self._stepping.doubts
        code = is_fetch(cores)
        seen.fetched.update(touched_by(cores[code]).used.tolist())
        cores = cores[~code]
        rows = np.concatenate([cores, kernel])
        events, watched = watched_rows(cores, self._watched), watched_rows(rows, self._watched)
        if len(events) and (events["count"] != count).any():
            seen.doubts.add("an instruction cannot be stopped before it uses what is shared")
        if is_split(events):
            seen.splits.add(int(events["pc"][0]))
        keys, may = uses_in(watched)
        footprint = self._footprint(keys, may, kernel)
        seen.ranges += [(number, span) for span in footprint.ranges]
        since = self._since.pop(task, -1)
        seen.steps.append(Step(task, footprint, since, task in self._late))
        self._late.discard(task)
        # Behind a call the first instruction has the count at which the step began.
        event = (cores["count"] == count) if len(events) else np.zeros(len(cores), bool)
        seen.touched.append((touched_by(np.concatenate([cores[event], kernel])), touched_by(cores[~event])))
        if index >= self._plan.branch:
            self._sleep = asleep_after(self._sleep, seen.steps[-1])
        self._look_for_circle(task, index, footprint, rows, number)

    def _footprint(self, keys: dict[Key, bool], may: set[Key], kernel: np.ndarray) -> Footprint:
        ended = bool(self._machine.ended())
        served = self._stepping.served
        ranges: tuple[tuple[int, int], ...] = ()
        if served is not None:
            process = self._machine.process
            task = process.tasks.get(served.tid)
            blocked = task is not None and task.wait is not None and task.state is State.BLOCKED
            uses = uses_of(
                served,
                blocked=blocked,
                last_but_main=process.pid not in process.tasks,
            )
            keys, may, ranges = keys | uses.keys, may | uses.may, uses.ranges
            if served.name == "exit":
                # It wakes whoever waits where it leaves a mark.
                keys |= {("futex", row["addr"].item()): True for row in kernel if row["kind"] != 1}
            self._seen.doubts |= {uses.doubt} - {""}
            self._seen.fixed |= {uses.fixed} - {""}
            if process.space.has_shared_files:
                self._seen.doubts.add("memory is shared with a file")
        return Footprint(keys, frozenset(may), ranges, ended)

    def _look_for_circle(
        self, task: int, index: int, footprint: Footprint, rows: np.ndarray, number: int
    ) -> None:
        served = self._stepping.served
        quiet = served is None or served.name == "sched_yield"
        if not self._spins.step(task, index, footprint, rows, quiet=quiet and not footprint.ends):
            return
        if self._machine.queue.current[number] is None or self._machine.ended():
            return
        core = self._machine.cores[number]
        # Who asks for the time again is told another. A call that waits to be served is another place.
        told = (core.unlisted(), int(core.row["timed"]), number in self._stepping.held)
        self._spins.stands(task, core.pc, core.context() + repr(told).encode())

    # -- the end -------------------------------------------------------------------------------------

    def finished(self) -> Followed:
        """The run is over, or was stopped."""
        self._end_step()
        seen = self._seen
        stuck, footprints = self._spins.stuck, [step.footprint for step in seen.steps]
        circle = self._over == CIRCLE and self._spins.waits_in_vain(footprints)
        left: tuple[int, ...] = ()
        if self._machine.ended() and seen.steps:
            living = {task.tid for task in self._machine.queue.current if task is not None}
            left = tuple(sorted(living - {seen.steps[-1].task} - set(stuck)))
        execution = Execution(
            tuple(seen.steps), tuple(seen.enabled), left, not self._stalled and self._over in ("", CIRCLE)
        )
        trace = Trace(seen.steps)
        racing, atomic = racing_words(trace, seen.touched, self._watched)
        self._doubt_code()
        return Followed(
            execution, circle, bool(stuck) and not circle, self._over == ENDLESS, self._stalled,
            tuple(racing), tuple(atomic), tuple(sorted(seen.doubts)), tuple(sorted(seen.fixed)),
            tuple(sorted(seen.splits)), sum(core.count for core in self._machine.cores),
        )  # fmt: skip

    def _doubt_code(self) -> None:
        """Code that is changed, or taken away, while several threads run is not watched."""
        seen = self._seen
        wrote = {word for parts in seen.touched for one in parts for word in one.wrote.tolist()}
        if wrote & seen.fetched:
            seen.doubts.add("code was changed that a thread runs")
        for number, (low, high) in seen.ranges:
            pages = slice(low >> PAGE_SHIFT, high >> PAGE_SHIFT)
            others = (core for k, core in enumerate(self._machine.cores) if k != number)
            if any((core.page_flags[pages] & np.uint8(CODE)).any() for core in others):
                seen.doubts.add("memory was mapped, protected or taken of which another thread has run code")
