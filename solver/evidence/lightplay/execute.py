"""Replaying slices by executing their instructions on one processor (LightPlay, section 2.3, Figure 6).

Cores run one at a time, in the order that was found: each up to the next instruction whose accesses race in
a slice. That finds in memory what the slice's instructions before it have left there, whatever the core's own
log says, and must do what it did in the run. In between a core has its own log, as in every isolated replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import Divergence
from corebraid.base.rows.event import EVENT, FETCH, GLUED, READ, RMW, WRITE
from corebraid.base.wording import Call, Phrase
from recorder.files.reader import Recording
from solver.evidence.lightplay.decide import Decided
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, SliceProblem
from solver.evidence.lightplay.stepping import SteppedCore

_KINDS = {READ: "a read", WRITE: "a write", RMW: "an atomic change"}
_COLUMNS = ("pc", "addr", "size", "kind", "old", "new")


@dataclass(frozen=True)
class Turn:
    """Accesses of an instruction, or of an agent, that are indivisible. core: whose; the number of cores for
    agents. count: instructions of the core before it. executed: whether an instruction makes them; an agent's
    are done as they were, and code that a core fetches is compared. events: EVENT[n], those that race.
    places: of the slice, which these touch. given: which the instruction is to find in the slice's memory, if
    it has not been executed yet."""

    core: int
    count: int
    executed: bool
    events: NDArray[Any]
    places: tuple[int, ...]
    given: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A slice's instructions in the order that was found."""

    problem: SliceProblem
    turns: tuple[Turn, ...]


@dataclass
class Executed:
    """What was replayed. slices: by executing all their racing instructions; parted: slices that were not,
    since in the order found another writes between two accesses of an instruction what the second one reads.
    instructions: executed with racing accesses. agents, fetches: accesses of agents, which were done, and of
    code, which were compared. accesses: that raced, in all. given: bytes that instructions found in a slice's
    memory. retired: instructions that cores have executed in all. steps: that all racing accesses take where
    cores wait for nothing but the slices' constraints; 0 where they were executed in the orders found."""

    slices: int = 0
    parted: int = 0
    instructions: int = 0
    agents: int = 0
    fetches: int = 0
    accesses: int = 0
    given: int = 0
    retired: int = 0
    steps: int = 0


def plan_of(decided: Decided, events: Any, n_cores: int) -> Plan | None:
    """The turns of a slice. events: EVENT (n,), its accesses, as the engine shows them. None: they cannot be
    had by executing whole instructions."""
    problem, turns, order = decided.problem, list[Turn](), decided.order.tolist()
    found: dict[tuple[int, int, bool], list[int]] = {}
    for op in order:
        found.setdefault(instruction_of(problem, events, op), []).append(op)
    for position, op in enumerate(order):
        core, count, fetches = key = instruction_of(problem, events, op)
        executed = core < n_cores and not fetches
        group = found[key] if executed else [op]
        if op != group[0] and _written_between(problem, order[order.index(group[0]) : position], op):
            return None
        given = {place for one in group for place in _places(problem, one)}
        begun = (problem.begun["count"] == count) & (problem.begun["core"] == core)
        for row in problem.begun[begun]:
            given -= {place for place in given if _touching(problem, row.reshape(1), [place]).size}
        rows, places = _rows(problem, events, op), tuple(_places(problem, op))
        turns.append(Turn(core, count, executed, rows, places, tuple(sorted(given))))
    return Plan(problem, tuple(turns))


def instruction_of(problem: SliceProblem, events: Any, op: int) -> tuple[int, int, bool]:
    """(stream, instructions before, whether it fetches code) of an operation."""
    row = events[problem.access[op]]
    return int(problem.stream[op]), int(row["count"]), bool(row["flags"] & FETCH)


def _written_between(problem: SliceProblem, between: list[int], op: int) -> bool:
    """Whether others write what an operation reads. between: what comes from its instruction's first one on
    to it."""
    parts = range(problem.part_ptr[op], problem.part_ptr[op + 1])
    reads = {int(problem.place[part]) for part in parts if problem.how[part] & TAKES}
    for other in (one for one in between if problem.stream[one] != problem.stream[op]):
        parts = range(problem.part_ptr[other], problem.part_ptr[other + 1])
        if any(int(problem.place[part]) in reads and problem.how[part] & GIVES for part in parts):
            return True
    return False


def _places(problem: SliceProblem, op: int) -> list[int]:
    found: list[int] = problem.place[problem.part_ptr[op] : problem.part_ptr[op + 1]].tolist()
    return found


def _rows(problem: SliceProblem, events: Any, op: int) -> NDArray[Any]:
    """The accesses of an operation, of which `access` is the last: those that are indivisible with it."""
    first = last = int(problem.access[op])
    while first and events["flags"][first - 1] & GLUED and events["core"][first - 1] == events["core"][last]:
        first -= 1
    return _touching(problem, events[first : last + 1], _places(problem, op))


def _touching(problem: SliceProblem, rows: Any, places: Iterable[int]) -> NDArray[Any]:
    """Those of EVENT[n] that touch one of these places."""
    touches = np.zeros(len(rows), bool)
    ends = rows["addr"] + rows["size"].astype(np.uint64)
    for place in places:
        touches |= (rows["addr"] <= problem.address[place]) & (problem.address[place] < ends)
    found: NDArray[Any] = rows[touches]
    return found


def execute(recording: Recording, plans: Iterable[Plan | None]) -> Executed:
    """Replay slices, in their order. plans: None for one that cannot be. Raises Divergence where an
    instruction does not do what it did, FormatError."""
    done, here = Executed(), list[Plan]()
    for plan in plans:
        if plan is None:
            done.parted += 1
        else:
            here.append(plan)
    cores = _Cores(recording, here)
    for plan in here:
        _Slice(cores, plan, done).replay()
    done.retired = cores.retired
    return done


class _Cores:
    """Those with racing instructions, each before its next one. rows: of each, what its last one accessed
    that has not been compared yet, EVENT[n]."""

    def __init__(self, recording: Recording, plans: Iterable[Plan]) -> None:
        self.recording, self.n_cores = recording, recording.manifest.n_cores
        counts: dict[int, set[int]] = {}
        for turn in (turn for plan in plans for turn in plan.turns if turn.executed):
            counts.setdefault(turn.core, set()).add(turn.count)
        self.at = {core: SteppedCore(recording, core, sorted(those)) for core, those in counts.items()}
        if (failed := next((one.failed for one in self.at.values() if one.failed), None)) is not None:
            raise failed
        self._begun = {core: one.instructions for core, one in self.at.items()}
        self.last = dict.fromkeys(self.at, -1)
        self.rows = dict.fromkeys(self.at, np.zeros(0, EVENT))

    @property
    def retired(self) -> int:
        """Instructions since the replay of slices began."""
        return sum(one.instructions - self._begun[core] for core, one in self.at.items())


class _Slice:
    """One slice under way."""

    def __init__(self, cores: _Cores, plan: Plan, done: Executed) -> None:
        self._cores, self._plan, self._problem, self._done = cores, plan, plan.problem, done
        self._memory = self._bytes(plan.problem.initial)

    def _bytes(self, values: NDArray[np.uint64]) -> list[bytearray]:
        sizes = self._problem.size.tolist()
        return [
            bytearray(value.to_bytes(8, "little")[:size])
            for value, size in zip(values.tolist(), sizes, strict=True)
        ]

    def replay(self) -> None:
        """All turns. Raises Divergence."""
        for turn in self._plan.turns:
            if turn.executed:
                self._execute(turn)
            else:
                self._do(turn)
            self._done.accesses += len(turn.events)
            for row in turn.events:
                if row["kind"] != READ:
                    self._write(row, turn)
        found, final = self._memory, self._bytes(self._problem.final)
        for place, (one, other) in enumerate(zip(found, final, strict=True)):
            if one != other:
                raise self._diverged("memory at its end", other.hex(), one.hex(), place)
        self._done.slices += 1

    def _do(self, turn: Turn) -> None:
        """What no instruction does."""
        agent = turn.core >= self._cores.n_cores
        self._done.agents += agent
        self._done.fetches += not agent
        for row in (row for row in turn.events if row["kind"] != WRITE):
            value, begin, size = int(row["old"]).to_bytes(8, "little"), int(row["addr"]), int(row["size"])
            for place in turn.places:
                at, n = int(self._problem.address[place]) - begin, int(self._problem.size[place])
                if 0 <= at < size and value[at : at + n] != self._memory[place]:
                    expected, found = value[at : at + n].hex(), self._memory[place].hex()
                    raise self._diverged("what is read", expected, found, place, turn)

    def _execute(self, turn: Turn) -> None:
        """What the instruction does there."""
        cores = self._cores
        if cores.last[turn.core] != turn.count:
            self._step(turn)
        done = cores.rows[turn.core]
        at = -1
        for row in turn.events:
            later = np.flatnonzero((done["addr"] == row["addr"]) & (done["kind"] == row["kind"]))
            at = next((k for k in later.tolist() if k > at), -1)
            if at < 0 or _told(done[at]) != _told(row):
                found = _told(done[at]) if at >= 0 else "no such access"
                raise self._diverged("what an instruction did", _told(row), found, turn=turn)
        cores.rows[turn.core] = done[at + 1 :]
        if (failed := cores.at[turn.core].failed) is not None:
            raise failed

    def _step(self, turn: Turn) -> None:
        core, problem = self._cores.at[turn.core], self._problem
        if core.before != turn.count:
            where = f"instruction {core.before}" if core.before >= 0 else "the end"
            raise self._diverged("a core's next instruction", f"instruction {turn.count}", where, turn=turn)
        for place in turn.given:
            core.put(int(problem.address[place]), bytes(self._memory[place]))
            self._done.given += int(problem.size[place])
        self._cores.last[turn.core], self._cores.rows[turn.core] = turn.count, core.go()
        self._done.instructions += 1

    def _write(self, row: np.void, turn: Turn) -> None:
        value, begin, size = int(row["new"]).to_bytes(8, "little"), int(row["addr"]), int(row["size"])
        for place in turn.places:
            at, n = int(self._problem.address[place]) - begin, int(self._problem.size[place])
            if 0 <= at < size:
                self._memory[place][:] = value[at : at + n]

    def _diverged(
        self, what: str, expected: str, found: str, place: int | None = None, turn: Turn | None = None
    ) -> Divergence:
        number = self._problem.number
        where = f"slice {number}"
        if place is not None:
            where += f", {int(self._problem.address[place]):#x}"
        if turn is not None:
            where += f", core {turn.core}, instruction {turn.count}"
        return Divergence(
            f"the order found of a slice does not replay: {what} differs", expected=expected, found=found,
            where=where,
            remedy=Phrase("look at slices with: ", Call("slices", str(self._cores.recording.path))),
        )  # fmt: skip


def _told(row: np.void) -> str:
    """What an access did, in words that differ where it does."""
    pc, address, size, kind, old, new = (int(row[name]) for name in _COLUMNS)
    return f"{_KINDS[kind]} of {size} at {address:#x}, {old:#x} to {new:#x}, by {pc:#x}"
