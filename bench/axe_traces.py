"""Random traces: a random program run on the abstract machine of SC or TSO, so legal, and corrupted ones."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from solver.axe.scan import COLUMNS
from solver.axe.text import make_trace
from solver.axe.trace import LOAD, RMW, STORE, SYNC, Trace

#: thread, kind, address, value read, value written
Op = tuple[int, int, int, int, int]
Final = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """What a random trace is like. ops: how many. values: stores write 0 to values - 1, or, if 0, each
    another value. sync, rmw: share of fences and atomics. loads: share of loads among the others. finals:
    share of locations with a final constraint. tso: run with store buffers, drained with probability `drain`
    a step."""

    threads: int
    addresses: int
    ops: int
    values: int = 0
    loads: float = 0.5
    rmw: float = 0.1
    sync: float = 0.05
    finals: float = 0.3
    tso: bool = False
    drain: float = 0.3


class _Machine:
    """Memory and store buffers (axe manual, sections 4.1 and 4.2)."""

    def __init__(self, shape: Shape, rng: random.Random) -> None:
        self._shape, self._rng = shape, rng
        self.memory = [0] * shape.addresses
        self._buffers: list[list[tuple[int, int]]] = [[] for _ in range(shape.threads)]
        self._fresh = [0] * shape.addresses

    def _value(self, address: int) -> int:
        if self._shape.values:
            return self._rng.randrange(self._shape.values)
        self._fresh[address] += 1
        return self._fresh[address]

    def drain(self, thread: int, all_of_it: bool) -> None:
        buffer = self._buffers[thread]
        while buffer:
            address, value = buffer.pop(0)
            self.memory[address] = value
            if not all_of_it:
                return

    def step(self, thread: int) -> Op:
        shape, rng = self._shape, self._rng
        address, dice = rng.randrange(shape.addresses), rng.random()
        if dice < shape.sync:
            self.drain(thread, True)
            return thread, SYNC, 0, 0, 0
        if dice < shape.sync + shape.rmw:
            self.drain(thread, True)
            read, self.memory[address] = self.memory[address], self._value(address)
            return thread, RMW, address, read, self.memory[address]
        if rng.random() < shape.loads:
            own = [value for a, value in self._buffers[thread] if a == address]
            return thread, LOAD, address, own[-1] if own else self.memory[address], 0
        value = self._value(address)
        self._buffers[thread].append((address, value))
        if not shape.tso:
            self.drain(thread, True)
        return thread, STORE, address, 0, value


def random_ops(shape: Shape, rng: random.Random) -> tuple[list[Op], list[Final]]:
    """A legal run: operations in the order of issue, and final constraints."""
    machine = _Machine(shape, rng)
    ops = []
    for _ in range(shape.ops):
        if shape.tso and rng.random() < shape.drain:
            machine.drain(rng.randrange(shape.threads), False)
        ops.append(machine.step(rng.randrange(shape.threads)))
    for thread in rng.sample(range(shape.threads), shape.threads):
        machine.drain(thread, True)
    finals = [(a, v) for a, v in enumerate(machine.memory) if rng.random() < shape.finals]
    return ops, finals


def corrupted(ops: list[Op], finals: list[Final], rng: random.Random) -> tuple[list[Op], list[Final]]:
    """The same with two to five things wrong: a value read or final is another of its location, or two
    neighbours of a thread are swapped. It may still be legal."""
    ops, finals = list(ops), list(finals)
    for _ in range(rng.randrange(2, 6)):
        i = rng.randrange(len(ops))
        thread, kind, address, read, written = ops[i]
        known = [0] + [op[4] for op in ops if op[2] == address and op[1] in (STORE, RMW)]
        if finals and rng.random() < 0.15:
            finals[0] = (finals[0][0], rng.choice([0, 1, 2]))
        elif kind in (LOAD, RMW):
            other = [value for value in known if value != read] or known
            ops[i] = (thread, kind, address, rng.choice(other), written)
        else:
            later = [j for j in range(i + 1, len(ops)) if ops[j][0] == thread]
            if later:
                ops[i], ops[later[0]] = ops[later[0]], ops[i]
    return ops, finals


def to_text(ops: list[Op], finals: list[Final], name: str = "") -> str:
    """A trace as the format writes it, up to and with 'check'."""
    lines = [f"# {name}"] if name else []
    for thread, kind, a, read, written in ops:
        texts = {
            LOAD: f"M[{a}] == {read}",
            STORE: f"M[{a}] := {written}",
            RMW: f"{{ M[{a}] == {read}; M[{a}] := {written} }}",
            SYNC: "sync",
        }
        lines.append(f"{thread}: {texts[kind]}")
    lines += [f"final M[{a}] == {value}" for a, value in finals]
    return "\n".join([*lines, "check", ""])


def to_trace(ops: list[Op], finals: list[Final], name: str = "") -> Trace:
    """A trace without the way through text."""
    rows = [
        (kind, t, a, read, written, 0, 0, i + 1, 0, 0, 0) for i, (t, kind, a, read, written) in enumerate(ops)
    ]
    rows += [(4, 0, a, value, 0, 0, 0, len(ops) + 1 + i, 0, 0, 0) for i, (a, value) in enumerate(finals)]
    return make_trace([np.array(rows, np.uint64).reshape(len(rows), COLUMNS)], name, name)
