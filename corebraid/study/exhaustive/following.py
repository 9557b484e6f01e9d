"""One run as a plan asks for it: chooses whose step is next, and takes down what each step touched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from corebraid.base.rows.event import UNCACHED, WRITE
from corebraid.study.exhaustive.buffers import Accesses, StoreBuffers, seen_in
from corebraid.study.exhaustive.observing import (
    Observer,
    is_fetch,
    is_split,
    joined,
    touched_by,
    uses_in,
    watched_rows,
)
from corebraid.study.exhaustive.racing import NOTHING, Parts, Words, racing_words
from corebraid.study.exhaustive.spinning import Spins
from corebraid.study.exhaustive.steps import Execution, Footprint, Plan, Step
from corebraid.study.exhaustive.tasks import Tasks
from corebraid.study.exhaustive.trace import Trace, asleep_after
from emu.board.board import Board
from emu.native.state import CODE, CORE_AT, PAGE_SHIFT
from emu.schedule.stepped import is_buffer
from recorder.files.collectors import Rows

#: Steps of a run at most: what makes more is taken not to end.
MOST_STEPS = 20_000


class OverError(Exception):
    """The run is not to go on. why: one of the below."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


#: All that can run are asleep; all that can run have gone round in a circle; there are too many steps.
ASLEEP, CIRCLE, ENDLESS = "asleep", "circle", "endless"
#: What is not tried where a store waited until there was room for it in its buffer.
MADE_ROOM = "larger store buffers, though one was full"
#: A step was so long that its task may have waited for something that is not watched.
STALLED = "stalled"
#: Turns that tasks take then, and instructions of one.
_TURNS, _TURN = 1_000, 1_000


@dataclass(frozen=True)
class Followed:
    """What was learnt of a run. circle: its tasks go round in circles for ever; spun: one of them would
    have gone on, in a run that is another one's equal. endless, stalled: it was broken off. racing: words
    that should have been watched; atomic: those of them that are changed atomically. doubts: why nothing
    can be proven of the program. fixed: choices that were not tried. splits: pcs of instructions that
    were taken as indivisible and are not. instructions: of all cores, at its end. circles: where tasks
    stood in loops that they went round: a task and a pc each; timed: where they stood before they were
    told how much they have run. left: of steps that have no end, by their numbers, see `Listed`."""

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
    circles: frozenset[tuple[int, int]] = frozenset()
    timed: frozenset[tuple[int, int]] = frozenset()
    left: tuple[tuple[int, int], ...] = ()


@dataclass
class _Seen:
    """What gathers during a run."""

    steps: list[Step] = field(default_factory=list)
    enabled: list[tuple[int, ...]] = field(default_factory=list)
    touched: list[Parts] = field(default_factory=list)
    doubts: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    splits: set[int] = field(default_factory=set)
    timed: set[tuple[int, int]] = field(default_factory=set)
    #: Where tasks stood before their steps: a task and a pc each.
    stood: set[tuple[int, int]] = field(default_factory=set)
    #: Whether the processor's counter was read, and whether somebody has slept.
    counted: bool = False
    slept: bool = False
    #: Memory whose mapping was changed, with the core that did.
    ranges: list[tuple[int, tuple[int, int]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Begun:
    """A step under way. count, times: what the core had run, and how often it was told the time, before."""

    task: int
    number: int
    count: int
    times: int


class Follower:
    """Follows one plan on a machine that runs step by step. tasks: whose steps those are. watched: the words
    whose accesses are events, ascending. patience: instructions of a step at most."""

    def __init__(
        self, machine: Board, tasks: Tasks, observer: Observer, plan: Plan, watched: Words, patience: int
    ) -> None:
        self._machine, self._observer, self._plan, self._watched = machine, observer, plan, watched
        self._tasks, self._patience = tasks, patience
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
        self._begun: _Begun | None = None
        #: How often the step under way was cut short; of those that were left then.
        self._cuts = 0
        self._left: dict[int, int] = {}
        self._over = ""
        #: Under TSO, of cores.
        self._buffers = None if tasks.policy.buffers is None else StoreBuffers(machine, watched)
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
            enabled = tuple(task for task in enabled if task not in self._spins.waiting)
        self._note_enabled(set(enabled))
        if not enabled:
            if self._tasks.awaits_time():
                # Nobody but tasks that go round in circles can run: time would go on.
                self._seen.doubts.add("threads spin while another waits with a time limit")
            self._stop(CIRCLE)
        if len(self._seen.steps) >= MOST_STEPS:
            self._stop(ENDLESS)
        task = self._pick(enabled)
        self._seen.enabled.append(enabled)
        number = self._tasks.core_of(task)
        core = self._machine.cores[number]
        self._cuts = 0
        self._seen.stood.add((task, core.pc))
        self._begun = _Begun(task, number, core.count, core.words[CORE_AT.times])
        self._tasks.begin_step()
        if self._buffers is not None:
            self._buffers.begin(number)
            if self._buffers.made_room:
                self._seen.fixed.add(MADE_ROOM)
        return task

    def goes_on(self) -> bool:
        """Whether the step under way is not too long. From the first on that is, the run is no step by step:
        tasks take turns, to show what they share."""
        if self._begun is None:
            return True
        self._cuts += 1
        long = self._machine.cores[self._begun.number].count - self._begun.count
        if not self._turns and self._stands_alone(self._begun):
            self._left[len(self._seen.steps)] = self._cuts
            return False
        if long >= self._patience and not self._turns:
            self._turns, self._stalled = _TURNS, True
            self._tasks.policy.longest = _TURN
        return not self._turns or long < _TURN

    def _stands_alone(self, begun: _Begun) -> bool:
        """Whether the task has come back to where it was, in a step that has no end: it waits for a word that
        nobody has changed yet. Whoever does makes it one that is watched."""
        core = self._machine.cores[begun.number]
        changed = self._observer.changes() or core.words[CORE_AT.times] != begun.times
        registers = core.context() + repr(core.unlisted()).encode()
        return self._spins.goes_on(begun.task, core.pc, registers, changed=changed)

    def _stop(self, why: str) -> None:
        self._over = why
        raise OverError(why)

    def _note_enabled(self, enabled: set[int]) -> None:
        passed = self._tasks.time_passed()
        # Time passes when nobody can run: whoever can now could not, if only since the step just made.
        new = enabled if passed else enabled - self._could
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
        begun, self._begun = self._begun, None
        task, seen, index = begun.task, self._seen, len(self._seen.steps)
        if self._buffers is not None and is_buffer(task):
            self._end_commit(self._buffers, begun, index)
            return
        cores, kernel = self._observer.step()
        cores = cores[~is_fetch(cores)]
        rows = joined((cores, kernel))
        events = watched_rows(cores, self._watched)
        counts = np.concatenate([events["count"], cores["count"][(cores["flags"] & np.uint8(UNCACHED)) != 0]])
        if (counts != begun.count).any():
            seen.doubts.add("an instruction cannot be stopped before it uses what is shared")
        if self._is_split(events):
            seen.splits.add(int(events["pc"][0]))
        if self._machine.cores[begun.number].words[CORE_AT.times] != begun.times:
            self._note_time(task)
            seen.counted = True
        footprint, quiet = self._footprint(task, cores, kernel)
        seen.ranges += [(begun.number, span) for span in footprint.ranges]
        since = self._since.pop(task, -1)
        looked = footprint
        if self._buffers is not None:
            plain = bool(((cores["count"] == begun.count) & (cores["kind"] == WRITE)).any())
            own = Accesses(events, watched_rows(kernel, self._watched), plain)
            footprint, looked, drained, stores = self._of_buffers(self._buffers, begun, footprint, own)
            since = max(since, drained)
            quiet = quiet and not stores
        seen.steps.append(Step(task, footprint, since, task in self._late))
        self._late.discard(task)
        # Behind a call the first instruction has the count at which the step began.
        event = (cores["count"] == begun.count) if len(counts) else np.zeros(len(cores), bool)
        seen.touched.append((touched_by(joined((cores[event], kernel))), touched_by(cores[~event])))
        if index >= self._plan.branch:
            self._sleep = asleep_after(self._sleep, seen.steps[-1])
        quiet = quiet and self._machine.cores[begun.number].words[CORE_AT.times] == begun.times
        self._look_for_circle(begun, index, looked, rows, quiet=quiet)

    def _is_split(self, events: Rows) -> bool:
        """Whether the step's event is taken as one and is not. A buffer lets others in between what an
        instruction reads and what it writes."""
        if self._buffers is None:
            return is_split(events)
        stores = events[events["kind"] == WRITE]
        return any(
            map(is_split, (events[events["kind"] != WRITE], *(stores[k : k + 1] for k in range(len(stores)))))
        )

    def _end_commit(self, buffers: StoreBuffers, begun: _Begun, index: int) -> None:
        """The step under way was a commit."""
        seen, task = self._seen, begun.task
        self._since.pop(task, None)
        # What it moves between the cores' memories no core has asked for.
        self._observer.step()
        footprint, since = buffers.commit(begun.number, index)
        seen.steps.append(Step(task, footprint, since))
        seen.touched.append(NOTHING)
        if index >= self._plan.branch:
            self._sleep = asleep_after(self._sleep, seen.steps[-1])

    def _of_buffers(
        self, buffers: StoreBuffers, begun: _Begun, footprint: Footprint, own: Accesses
    ) -> tuple[Footprint, Footprint, int, bool]:
        """Under TSO: what a step of a core touched; what it looked at, whoever has answered; the step since
        which it could be made; and whether it has issued stores."""
        keys, may, stores, since = buffers.step(begun.number, begun.task, len(self._seen.steps), own)
        others = {key: changed for key, changed in footprint.uses.items() if not isinstance(key, int)}
        looked = replace(footprint, uses={**others, **seen_in(own.events), **keys})
        may |= {key for key in footprint.may if not isinstance(key, int)}
        return replace(footprint, uses={**others, **keys}, may=frozenset(may)), looked, since, stores

    def _footprint(self, task: int, cores: Rows, agents: Rows) -> tuple[Footprint, bool]:
        """What a step touched, and whether that was quiet (`Uses`)."""
        keys, may = uses_in(watched_rows(joined((cores, agents)), self._watched))
        uses = self._tasks.uses(cores, agents)
        self._seen.doubts |= self._tasks.doubts | ({uses.doubt} - {""})
        self._seen.fixed |= {uses.fixed} - {""}
        if uses.timed:
            self._note_time(task)
        self._seen.slept = self._seen.slept or uses.slept
        ended = bool(self._machine.ended())
        return Footprint(keys | uses.keys, frozenset(may | uses.may), uses.ranges, ended), uses.quiet

    def _note_time(self, task: int) -> None:
        """A task was told how much it has run."""
        self._seen.timed |= {place for place in self._seen.stood if place[0] == task}

    def _look_for_circle(
        self, begun: _Begun, index: int, footprint: Footprint, rows: Rows, *, quiet: bool
    ) -> None:
        task, number = begun.task, begun.number
        if not self._spins.step(task, index, footprint, rows, quiet=quiet and not footprint.ends):
            return
        if not self._tasks.stands_on(number) or self._machine.ended():
            return
        core = self._machine.cores[number]
        more = core.unlisted(), self._tasks.is_held(number)
        self._spins.stands(task, core.pc, core.context() + repr(more).encode())

    # -- the end -------------------------------------------------------------------------------------

    def finished(self) -> Followed:
        """The run is over, or was stopped."""
        self._end_step()
        seen = self._seen
        stuck, waiting = self._spins.stuck, self._spins.waiting
        footprints = [step.footprint for step in seen.steps]
        circle = self._over == CIRCLE and self._spins.waits_in_vain(footprints)
        left: tuple[int, ...] = ()
        if self._machine.ended() and seen.steps:
            left = tuple(sorted(self._tasks.living() - {seen.steps[-1].task} - waiting))
        execution = Execution(
            tuple(seen.steps), tuple(seen.enabled), left, not self._stalled and self._over in ("", CIRCLE)
        )
        trace = Trace(seen.steps)
        commits = None if self._buffers is None else self._buffers.committed()
        racing, atomic = racing_words(trace, seen.touched, self._watched, commits)
        self._doubt_code()
        if seen.counted and seen.slept:
            seen.doubts.add("a thread reads the processor's own counter, which stands while another sleeps")
        return Followed(
            execution, circle, bool(stuck) and not circle, self._over == ENDLESS, self._stalled,
            tuple(racing), tuple(atomic), tuple(sorted(seen.doubts)), tuple(sorted(seen.fixed)),
            tuple(sorted(seen.splits)), sum(core.count for core in self._machine.cores),
            frozenset(self._spins.places), frozenset(seen.timed), tuple(self._left.items()),
        )  # fmt: skip

    def _doubt_code(self) -> None:
        """Code that is changed, or taken away, while several threads run is not watched."""
        seen = self._seen
        words = np.concatenate(
            [np.zeros(0, np.uint64), *(one.wrote for both in seen.touched for one in both)]
        )
        pages = np.unique(words >> np.uint64(PAGE_SHIFT - 3)).astype(np.int64)
        if any((core.page_flags[pages] & np.uint8(CODE)).any() for core in self._machine.cores):
            seen.doubts.add("memory was changed beside code that a thread has run")
        for number, (low, high) in seen.ranges:
            span = slice(low >> PAGE_SHIFT, high >> PAGE_SHIFT)
            others = (core for k, core in enumerate(self._machine.cores) if k != number)
            if any((core.page_flags[span] & np.uint8(CODE)).any() for core in others):
                seen.doubts.add("memory was mapped, protected or taken of which another thread has run code")
