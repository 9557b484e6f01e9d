"""What must come before what in a tiny run: all interleavings are tried, and those kept in which every core
sees what it saw, misses as it missed, and loses what it lost."""

from __future__ import annotations

from typing import NamedTuple

from tenure_factory import EXCLUSIVE, LINE, MODIFIED, SHARED, Row, Run

from corebraid.base.rows.event import OWNED, READ, RMW, WRITE
from corebraid.base.rows.record import MISS_OWNED, MISS_WRITE
from recorder.evidence.losses.log import DOWNGRADED, LOST


class State(NamedTuple):
    """Where every stream stands (instructions), how many records and losses of each core have come, memory,
    and who holds what."""

    at: tuple[int, ...]
    records: tuple[int, ...]
    losses: tuple[int, ...]
    memory: bytes
    held: frozenset[tuple[int, int, int]]


class _Refuted(Exception):
    """This did not happen."""


class Oracle:
    """All interleavings of a run without stopped accesses."""

    def __init__(self, run: Run) -> None:
        self._run, self._n = run, len(run.cores)
        streams = [*(core.rows for core in run.cores), run.agents]
        self._units = [self._instructions(rows) for rows in streams]
        none = (0,) * self._n
        self._start = State((0,) * (self._n + 1), none, none, run.before, frozenset())

    @staticmethod
    def _instructions(rows: list[tuple[int, ...]]) -> list[list[int]]:
        """Numbers of the rows of each instruction."""
        units: list[list[int]] = []
        for number, row in enumerate(rows):
            if units and rows[units[-1][0]][1] == row[1]:
                units[-1].append(number)
            else:
                units.append([number])
        return units

    def _rows(self, stream: int) -> list[tuple[int, ...]]:
        return self._run.agents if stream == self._n else self._run.cores[stream].rows

    def _stratum(self, at: tuple[int, ...]) -> int:
        standing = enumerate(zip(at, self._units, strict=True))
        left = [self._rows(s)[units[i][0]][6] for s, (i, units) in standing if i < len(units)]
        return min(left, default=0)

    def moves(self, state: State) -> list[State]:
        """What may come next: somebody's instruction, or that a core gives a line back."""
        found, now = [], self._stratum(state.at)
        for s, units in enumerate(self._units):
            if state.at[s] < len(units) and self._rows(s)[units[state.at[s]][0]][6] == now:
                try:
                    found.append(_Turn(self._run, state, self._units, now).take(s))
                except _Refuted:
                    continue
        if not self._run.unbounded:
            found += [state._replace(held=state.held - {one}) for one in state.held]
        return found

    def live(self) -> list[State]:
        """The states on the way of an interleaving that fits."""
        before: dict[State, list[State]] = {self._start: []}
        todo = [self._start]
        while todo:
            state = todo.pop()
            for to in self.moves(state):
                if to not in before:
                    before[to] = []
                    todo.append(to)
                before[to].append(state)
        alive = {state for state in before if self._ends(state)}
        todo = list(alive)
        while todo:
            for state in before[todo.pop()]:
                if state not in alive:
                    alive.add(state)
                    todo.append(state)
        return list(alive)

    def _ends(self, state: State) -> bool:
        cores = self._run.cores
        return (
            state.at == tuple(map(len, self._units))
            and state.records == tuple(len(core.records) for core in cores)
            and state.losses == tuple(len(core.losses) for core in cores)
            and state.memory == bytes(self._run.memory)
        )

    def must(self) -> set[tuple[Row, Row]]:
        """All pairs of rows of different streams, of which the one always comes first."""
        stands = {state.at for state in self.live()}
        assert stands, "the interleaving that ran is none"
        rows = [(s, number) for s in range(self._n + 1) for number in range(len(self._rows(s)))]
        unit = {
            (s, number): i
            for s, units in enumerate(self._units)
            for i, unit in enumerate(units)
            for number in unit
        }
        return {
            (a, b)
            for a in rows
            for b in rows
            if a[0] != b[0] and not any(at[b[0]] > unit[b] and at[a[0]] <= unit[a] for at in stands)
        }


class _Turn:
    """One instruction, from a state."""

    def __init__(self, run: Run, state: State, units: list[list[list[int]]], stratum: int) -> None:
        self._run, self._units, self._stratum = run, units, stratum
        self._at, self._memory = list(state.at), bytearray(state.memory)
        self._records, self._losses = list(state.records), list(state.losses)
        self._held = {(core, line): how for core, line, how in state.held}

    def take(self, s: int) -> State:
        """Run the next instruction of a stream. Raises _Refuted."""
        agent = s == len(self._run.cores)
        rows = self._run.agents if agent else self._run.cores[s].rows
        for number in self._units[s][self._at[s]]:
            _, count, _, address, old, new, _, _, size, kind, flags = rows[number]
            lines = range(address // LINE, (address + size - 1) // LINE + 1)
            for line in lines if kind in (READ, RMW) and not agent else ():
                self._read(s, line, count)
            for line in lines if kind in (WRITE, RMW) and not agent else ():
                self._write(s, line, count)
            if agent and self._run.agents_say and bool(flags & OWNED) != any(map(self._owned, lines)):
                raise _Refuted
            for line in lines if agent else ():
                self._claim(s, line, kind != READ)
            if int.from_bytes(self._memory[address : address + size], "little") != old:
                raise _Refuted
            self._memory[address : address + size] = new.to_bytes(size, "little")
        self._at[s] += 1
        held = frozenset((core, line, how) for (core, line), how in self._held.items())
        return State(tuple(self._at), tuple(self._records), tuple(self._losses), bytes(self._memory), held)

    def _read(self, s: int, line: int, count: int) -> None:
        if (s, line) not in self._held:
            flags = MISS_OWNED if self._owned(line) else 0
            shared = self._claim(s, line, False)
            self._miss(s, line, count, flags)
            self._held[s, line] = SHARED if shared else EXCLUSIVE

    def _write(self, s: int, line: int, count: int) -> None:
        how = self._held.get((s, line))
        if how is None:
            flags = MISS_WRITE | (MISS_OWNED if self._owned(line) else 0)
            self._claim(s, line, True)
            self._miss(s, line, count, flags)
        elif how == SHARED:
            self._claim(s, line, True)
        self._held[s, line] = MODIFIED

    def _owned(self, line: int) -> bool:
        return any(at == line and how != SHARED for (_, at), how in self._held.items())

    def _claim(self, s: int, line: int, for_write: bool) -> bool:
        others = [core for core, at in self._held if at == line and core != s]
        for core in others:
            if for_write:
                self._lose(core, line, LOST)
                del self._held[core, line]
            elif self._held[core, line] != SHARED:
                self._lose(core, line, DOWNGRADED)
                self._held[core, line] = SHARED
        return bool(others)

    def _miss(self, s: int, line: int, count: int, flags: int) -> None:
        core, i = self._run.cores[s], self._records[s]
        image = bytes(self._memory[line * LINE : (line + 1) * LINE])
        if i == len(core.records):
            raise _Refuted
        at, address, _, offset, size, _, said = core.records[i]
        if (at, address, said, bytes(core.blob[offset : offset + size])) != (
            count,
            line * LINE,
            flags,
            image,
        ):
            raise _Refuted
        self._records[s] += 1

    def _lose(self, core: int, line: int, way: int) -> None:
        losses, i = self._run.cores[core].losses, self._losses[core]
        if i == len(losses):
            raise _Refuted
        count, address, stratum, how = losses[i]
        rows, units, at = self._run.cores[core].rows, self._units[core], self._at[core]
        done = -1 if at == 0 else rows[units[at - 1][0]][1]
        fits = done < count and (at == len(units) or count <= rows[units[at][0]][1])
        if (address, stratum, how) != (line * LINE, self._stratum, way) or not fits:
            raise _Refuted
        self._losses[core] += 1
