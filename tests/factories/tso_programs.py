"""An abstract TSO machine (Sewell and others: x86-TSO, CACM 53(7), 2010), with all its interleavings. Its
cores have a store buffer each, whose commits are steps of their own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from abstract_programs import Op, random_access
from step_programs import CONSOLE, Program

from corebraid.study.exhaustive.steps import Footprint, Step
from emu.schedule.stepped import BUFFER


@dataclass
class TsoMachine:
    """A program that is being run. shared: variables whose stores are buffered; the others are memory at
    once. buffers: of each core, variable, value and number of each store. saw: what each core has read."""

    program: Program
    shared: frozenset[str]
    at: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    saw: list[list[int]] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    buffers: list[list[tuple[str, int, int]]] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    issued: dict[tuple[int, int], int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.at:
            n = len(self.program)
            self.at, self.read, self.stores = [0] * n, [0] * n, [0] * n
            self.saw, self.buffers = [[] for _ in range(n)], [[] for _ in range(n)]

    def enabled(self) -> list[int]:
        """Tasks that can make a step."""
        cores = [k for k, ops in enumerate(self.program) if self.at[k] < len(ops) and not self._waits(k)]
        return [*cores, *(BUFFER + k for k, held in enumerate(self.buffers) if held)]

    def _waits(self, core: int) -> bool:
        op = self.program[core][self.at[core]]
        return self._drains(op) and bool(self.buffers[core])

    def _drains(self, op: Op) -> bool:
        return op[0] in ("cas", "fence") or op[1] == CONSOLE

    def step(self, task: int) -> None:
        """Let a task make its next step."""
        if task >= BUFFER:
            core = task - BUFFER
            name, value, number = self.buffers[core].pop(0)
            self.memory[name] = value
            self.committed[core] = len(self.steps)
            uses = {name: True, ("store", core, number): True}
            self.steps.append(Step(task, Footprint(uses), self.issued[core, number]))
            return
        op = self.program[task][self.at[task]]
        self.at[task] += 1
        since = self.committed.get(task, -1) if self._drains(op) else -1
        uses = self._make(task, op)
        self.steps.append(Step(task, Footprint(uses), since))
        self._leave_out(task)

    def _leave_out(self, task: int) -> None:
        while self.at[task] < len(self.program[task]) and self.program[task][self.at[task]][0] == "if":
            self.at[task] += 1 if self.read[task] else 1 + self.program[task][self.at[task]][1]

    def _make(self, task: int, op: Op) -> dict[object, bool]:
        kind = op[0]
        if kind == "fence":
            return {}
        name = op[1]
        counts = name in self.shared
        if kind == "r":
            return self._load(task, name)
        if kind == "cas":
            found = self.read[task] = self.memory.get(name, 0)
            self.saw[task].append(found)
            if found == op[2]:
                self.memory[name] = op[3]
            return {name: found == op[2] and op[2] != op[3]} if counts else {}
        value = self.read[task] + 1 if kind == "inc" else op[2]
        if name == CONSOLE:
            return {name: True}
        if not counts:
            self.memory[name] = value
            return {}
        self.stores[task] += 1
        self.buffers[task].append((name, value, self.stores[task]))
        self.issued[task, self.stores[task]] = len(self.steps)
        return {}

    def _load(self, task: int, name: str) -> dict[object, bool]:
        held = [one for one in self.buffers[task] if one[0] == name]
        self.read[task] = held[-1][1] if held else self.memory.get(name, 0)
        self.saw[task].append(self.read[task])
        if held:
            return {("store", task, held[-1][2]): False}
        return {name: False} if name in self.shared else {}

    def outcome(self) -> tuple[object, ...]:
        """What can be told at the end."""
        return tuple(map(tuple, self.saw)), tuple(sorted((k, v) for k, v in self.memory.items() if v))


def tso_runs(program: Program, shared: frozenset[str], most: int) -> list[TsoMachine] | None:
    """All interleavings; None: there are more than `most`."""
    found = []
    for machine in _all(TsoMachine(program, shared)):
        found.append(machine)
        if len(found) > most:
            return None
    return found


def _all(machine: TsoMachine) -> Iterator[TsoMachine]:
    enabled = machine.enabled()
    if not enabled:
        yield machine
    for task in enabled:
        after = deepcopy(machine)
        after.step(task)
        yield from _all(after)


def random_tso(seed: int) -> Program:
    """Two or three cores with a few operations each, on few variables and the console, and fences."""
    draw = random.Random(f"tso/{seed}")
    n = draw.choice((2, 2, 2, 3))
    names = list("xyz")[: draw.randint(1, 3)]
    return tuple(tuple(_random_core(draw, names, draw.randint(1, 4 if n == 2 else 2))) for _ in range(n))


def _random_core(draw: random.Random, names: list[str], length: int) -> list[Op]:
    ops: list[Op] = []
    while len(ops) < length:
        x = draw.choice(names)
        kind = draw.choice(("r", "r", "r", "w", "w", "w", "inc", "cas", "if", "fence", "print"))
        if kind == "print":
            ops.append(("w", CONSOLE, 64 + draw.randint(1, 9)))
        elif kind == "fence":
            ops.append(("fence",))
        else:
            ops += random_access(draw, kind, x)
    return ops
