"""Stride's recorder in plain Python, one event at a time: the twin of
recorder/evidence/linkage/kernels.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from corebraid.base.rows.event import GLUED, READ, RMW, UNCACHED
from recorder.evidence.linkage.codec import DOUBLE, PREDICT

_MASK = (1 << 64) - 1


def _slot(key: int, bits: int) -> int:
    return ((key * 0x9E3779B97F4A7C15) & _MASK) >> (64 - bits)


@dataclass
class Twin:
    """What is recorded, not run-length coded. shares: variable -> (owner, its events, writes by then).
    orders: variable -> who wrote. bounds: stream -> versions. followed: the same with
    FOLLOW: (version, reads before it that saw what was known). values: stream -> (value, predicted before
    it). exact: stream -> the version that each of its logged reads really saw, in writes."""

    variable: Callable[[int], int]
    agents: int
    compressions: int
    shadow_bits: int
    seen_bits: int
    shares: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    orders: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    bounds: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    followed: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    values: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    exact: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.joined = False
        self.logged: list[int] = []
        self._owner: dict[int, int] = {}
        self._written: dict[int, int] = defaultdict(int)
        self._open: dict[int, int] = {}
        self._pending: dict[int, tuple[Any, ...]] = {}
        self._reached: dict[int, int] = defaultdict(int)
        self._hits: dict[int, int] = defaultdict(int)
        self._known: dict[int, int] = defaultdict(int)
        self._last: dict[tuple[int, int], int] = defaultdict(int)
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}

    def take(self, stream: int, rows: Any) -> None:
        """One turn."""
        self._settle(stream)
        for i, row in enumerate(rows):
            glued = bool(row["flags"] & GLUED) or (i > 0 and bool(rows[i - 1]["flags"] & GLUED))
            self.joined = glued
            at_end = i == len(rows) - 1 and stream != self.agents and not glued
            if not row["flags"] & UNCACHED:
                self._event(stream, row, at_end)
            self._reached[stream] = int(row["seq"]) + 1

    def finish(self) -> None:
        """The end of the run."""
        for stream in range(self.agents + 1):
            self._settle(stream)
            if self._known[stream]:
                self.followed[stream].append((self.bounds[stream][-1], self._known[stream] - 1))

    def _version(self, variable: int) -> int:
        """As the instrumentation sees it."""
        written, under_way = self._written[variable], variable in self._open
        if self.compressions & DOUBLE:
            return 2 * written - under_way
        return written

    def _is_shared(self, variable: int, stream: int) -> bool:
        if variable in self.shares:
            return True
        owner = self._owner.setdefault(variable, stream)
        if owner == stream:
            return False
        self.shares[variable] = owner, self._reached[owner], self._written[variable]
        return True

    def is_guarded(self, variable: int) -> bool:
        """Whether its accesses are skipped."""
        return False

    def sees_its_write(self, variable: int) -> bool:
        """Whether a stream has seen what it writes there, though that is skipped."""
        return False

    def _look(self, stream: int, variable: int) -> bool:
        version, at = self._version(variable), (stream, _slot(variable, self.seen_bits))
        same = self._seen.get(at) == (variable, version)
        self._seen[at] = variable, version
        self.bounds[stream].append(version)
        if same:
            self._known[stream] += 1
        else:
            self.followed[stream].append((version, self._known[stream]))
            self._known[stream] = 0
        return same and version % 2 == 0

    def _value(self, stream: int, place: int, value: int) -> None:
        at = stream, _slot(place, self.shadow_bits)
        if self.compressions & PREDICT and self._last[at] == value:
            self._hits[stream] += 1
            return
        self.values[stream].append((value, self._hits[stream]))
        self._hits[stream], self._last[at] = 0, value

    def _write(self, stream: int, variable: int, late: bool) -> None:
        self._open.pop(variable, None)
        self._written[variable] += 1
        if late:
            self._open[variable] = stream
        if variable in self.shares and not self.is_guarded(variable):
            self.orders[variable].append(stream)

    def _event(self, stream: int, row: Any, at_end: bool) -> None:
        address, last = int(row["addr"]), int(row["addr"]) + int(row["size"]) - 1
        variables = list(dict.fromkeys((self.variable(address), self.variable(last))))
        self.logged = logged = [v for v in variables if self._is_shared(v, stream)]
        seen = list(logged)
        if row["kind"] != READ and len(variables) == 1 and not logged:
            seen = [v for v in variables if self.sees_its_write(v)]
        late = at_end and len(variables) == 1 and bool(seen)
        if row["kind"] == READ:
            self.exact[stream] += [self._written[v] for v in logged]
            if late:
                self._pending[stream] = ("read", variables[0], address, int(row["old"]))
                return
            same = [self._look(stream, v) for v in logged]
            if logged and not (self.compressions & DOUBLE and all(same)):
                self._value(stream, address, int(row["old"]))
            return
        if row["kind"] == RMW and logged and not self.compressions & DOUBLE:
            self._value(stream, address, int(row["old"]))
        late = late and bool(self.compressions & DOUBLE)
        for variable in variables:
            self._write(stream, variable, late)
        if late:
            self._pending[stream] = ("write", variables[0])
        for variable in seen:
            version = self._written[variable] * (2 if self.compressions & DOUBLE else 1)
            self._seen[stream, _slot(variable, self.seen_bits)] = variable, version
        if seen:
            self._last[stream, _slot(address, self.shadow_bits)] = int(row["new"])

    def _settle(self, stream: int) -> None:
        kind, *rest = self._pending.pop(stream, ("nothing",))
        if kind == "write" and self._open.get(rest[0]) == stream:
            del self._open[rest[0]]
        if kind == "read":
            variable, address, value = rest
            if not (self._look(stream, variable) and self.compressions & DOUBLE):
                self._value(stream, address, value)
