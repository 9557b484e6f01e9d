"""Small abstract programs of several tasks, run by a schedule, and a search through all their interleavings
that knows nothing of partial orders."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from corebraid.study.exhaustive.steps import Execution, Footprint, Plan, Step
from corebraid.study.exhaustive.trace import asleep_after

#: An operation: ("r", x), ("w", x, value), ("inc", x): write what was last read, plus one; ("cas", x, old,
#: new), ("lock", m): wait while another holds it, and try again, ("unlock", m), ("sleep", q), ("wake", q),
#: ("start", task), ("exit",), ("if", n): leave out n operations if 0 was read last.
Op = tuple


@dataclass
class Machine:
    """An abstract program that is being run."""

    program: tuple[tuple[Op, ...], ...]
    at: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    memory: dict[object, int] = field(default_factory=dict)
    asleep: dict[object, list[int]] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    over: bool = False

    def __post_init__(self) -> None:
        n = len(self.program)
        if not self.at:
            self.at, self.read = [0] * n, [0] * n
            later = {op[1] for ops in self.program for op in ops if op[0] == "start"}
            self.started = set(range(n)) - later

    def copy(self) -> Machine:
        """Another one in the same state."""
        return Machine(
            self.program, list(self.at), list(self.read), dict(self.memory),
            {key: list(tasks) for key, tasks in self.asleep.items()}, set(self.started), self.over,
        )  # fmt: skip

    def enabled(self) -> tuple[int, ...]:
        """Tasks that can make a step, ascending."""
        if self.over:
            return ()
        return tuple(k for k in sorted(self.started) if self._can(k))

    def alive(self) -> tuple[int, ...]:
        """Tasks that could go on if the process had not ended."""
        return tuple(k for k in sorted(self.started) if self._can(k))

    def _can(self, task: int) -> bool:
        waits = any(task in tasks for tasks in self.asleep.values())
        return not waits and self.at[task] < len(self.program[task])

    def step(self, task: int) -> Footprint:
        """Let a task make its next step. Returns what it touches."""
        op = self.program[task][self.at[task]]
        self.at[task] += 1
        return getattr(self, f"_{op[0]}")(task, *op[1:])

    def _r(self, task: int, x: object) -> Footprint:
        self.read[task] = self.memory.get(x, 0)
        return Footprint({x: False})

    def _w(self, task: int, x: object, value: int) -> Footprint:
        self.memory[x] = value
        return Footprint({x: True})

    def _inc(self, task: int, x: object) -> Footprint:
        return self._w(task, x, self.read[task] + 1)

    def _cas(self, task: int, x: object, old: int, new: int) -> Footprint:
        found = self.read[task] = self.memory.get(x, 0)
        if found != old or old == new:
            return Footprint({x: False}, frozenset({x}))
        return self._w(task, x, new)

    def _lock(self, task: int, m: object) -> Footprint:
        if self.memory.get(("lock", m)):
            self.asleep.setdefault(("lock", m), []).append(task)
            self.at[task] -= 1
        self.memory[("lock", m)] = 1
        return Footprint({("lock", m): True})

    def _unlock(self, task: int, m: object) -> Footprint:
        self.memory[("lock", m)] = 0
        if waiting := self.asleep.get(("lock", m)):
            waiting.pop(0)
        return Footprint({("lock", m): True})

    def _sleep(self, task: int, q: object) -> Footprint:
        self.asleep.setdefault(q, []).append(task)
        return Footprint({("queue", q): True})

    def _wake(self, task: int, q: object) -> Footprint:
        waiting = self.asleep.get(q, [])
        if waiting:
            waiting.pop(0)
        return Footprint({("queue", q): True})

    def _start(self, task: int, other: int) -> Footprint:
        self.started.add(other)
        return Footprint({("tasks",): True})

    def _exit(self, task: int) -> Footprint:
        self.over = True
        return Footprint({}, ends=True)

    def _if(self, task: int, n: int) -> Footprint:
        if not self.read[task]:
            self.at[task] += n
        return Footprint({})

    def state(self) -> tuple:
        """What can be told at the end."""
        memory = tuple(sorted((str(k), v) for k, v in self.memory.items() if v))
        return memory, tuple(self.at), tuple(self.read), self.over


def run_plan(program: tuple[tuple[Op, ...], ...], plan: Plan, ends: list[tuple]) -> Execution:
    """A run as a plan asks for it. ends: the state at the end of a whole run is put there."""
    machine, steps, before = Machine(program), [], []
    sleep, last, could = dict(plan.sleep), -1, set(Machine(program).enabled())
    since: dict[int, int] = {}
    while enabled := machine.enabled():
        now = set(enabled)
        for task in now - could:
            since[task] = len(steps) - 1
        could, index = now, len(steps)
        if index < len(plan.tasks):
            task = plan.tasks[index]
            assert task in enabled, "a planned step cannot be made"
        else:
            awake = [k for k in enabled if k not in sleep]
            if not awake:
                return Execution(tuple(steps), tuple(before), whole=False)
            task = last if last in awake else awake[0]
        before.append(enabled)
        footprint = machine.step(task)
        steps.append(Step(task, footprint, since.pop(task, -1)))
        if index >= plan.branch:
            sleep = asleep_after(sleep, steps[-1])
        last = task
    ends.append(machine.state())
    left = tuple(k for k in machine.alive() if k != last) if machine.over else ()
    return Execution(tuple(steps), tuple(before), left)


def all_interleavings(program: tuple[tuple[Op, ...], ...]) -> Iterator[tuple[object, tuple, int]]:
    """All of them, one by one: of each its partial order (a canonical form), the state at the end, and how
    often it switches away from a task that could go on."""

    def go(
        machine: Machine, steps: list[Step], since: dict[int, int], switches: int
    ) -> Iterator[tuple[object, tuple, int]]:
        enabled = machine.enabled()
        if not enabled:
            yield order_of(steps), machine.state(), switches
            return
        last = steps[-1].task if steps else -1
        for task in enabled:
            after = machine.copy()
            step = Step(task, after.step(task), since.get(task, -1))
            new = set(after.enabled()) - set(enabled)
            later = {k: v for k, v in since.items() if k != task} | dict.fromkeys(new - {task}, len(steps))
            yield from go(after, [*steps, step], later, switches + (last in enabled and task != last))

    yield from go(Machine(program), [], {}, 0)


def order_of(steps: list[Step]) -> object:
    """A form that is the same for interleavings which differ in commuting steps alone: of each step, by its
    task and number, those before it, by the definition."""
    names: list[tuple[int, int]] = []
    before: list[set[int]] = []
    for k, step in enumerate(steps):
        names.append((step.task, sum(other.task == step.task for other in steps[:k])))
        direct = {j for j in range(k) if ordered(steps, j, k)}
        before.append(direct.union(*(before[j] for j in direct)))
    return frozenset(
        (name, frozenset(names[j] for j in some)) for name, some in zip(names, before, strict=True)
    )


def ordered(steps: Sequence[Step], j: int, k: int) -> bool:
    """Whether step j must come before step k, which is a later one: by the definition."""
    one, other = steps[j], steps[k]
    if one.task == other.task or other.enabled_by == j:
        return True
    if one.footprint.ends or other.footprint.ends:
        return True
    mine, theirs = one.footprint.uses, other.footprint.uses
    return any(key in theirs and (mine[key] or theirs[key]) for key in mine)


def random_program(seed: int) -> tuple[tuple[Op, ...], ...]:
    """Two or three tasks with a few operations each, on few variables."""
    draw = random.Random(f"abstract/{seed}")
    n = draw.choice((2, 2, 3))
    variables = ["x", "y", "z"][: draw.randint(1, 3)]
    most = 5 if n == 2 else 3
    tasks = [_random_task(draw, variables, draw.randint(1, most)) for _ in range(n)]
    if draw.random() < 0.3:
        tasks[0] = [("start", n - 1), *tasks[0]]
    if draw.random() < 0.3:
        tasks[draw.randrange(n)].append(("exit",))
    return tuple(map(tuple, tasks))


def _random_task(draw: random.Random, variables: list[str], length: int) -> list[Op]:
    ops: list[Op] = []
    while len(ops) < length:
        x = draw.choice(variables)
        kind = draw.choice(("r", "r", "w", "w", "inc", "cas", "cas", "locked", "if", "sleep", "wake"))
        if kind == "locked":
            ops += [("lock", "m"), draw.choice((("r", x), ("w", x, 1))), ("unlock", "m")]
        elif kind in ("sleep", "wake"):
            ops.append((kind, "q"))
        else:
            ops += random_access(draw, kind, x)
    return ops


def random_access(draw: random.Random, kind: str, x: str) -> list[Op]:
    """Operations of a kind on a variable."""
    if kind == "w":
        return [("w", x, draw.randint(1, 2))]
    if kind == "cas":
        return [("cas", x, draw.randint(0, 1), draw.randint(0, 2))]
    more: dict[str, list[Op]] = {"r": [], "inc": [("inc", x)], "if": [("if", 1), ("w", x, 3)]}
    return [("r", x), *more[kind]]
