"""Stride's replayer in plain Python, a list of versions for each word: the twin of
solver/evidence/linkage/replay. Figure 3 of the paper: a scheduler goes around, who must wait is suspended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from linkage_twin import Twin

from corebraid.base.rows.event import READ, RMW, UNCACHED, WRITE
from recorder.evidence.linkage.codec import DOUBLE, PREDICT

_MASK = (1 << 64) - 1


def _slot(key: int, bits: int) -> int:
    return ((key * 0x9E3779B97F4A7C15) & _MASK) >> (64 - bits)


@dataclass
class Stream:
    """A stream under replay. needs: what its next access waits for, (variable, version) one by one; None: it
    has not been looked at. bounds: of its next access, by variable."""

    rows: list[Any]
    begun: bool = False
    at: int = 0
    needs: list[tuple[int, int]] | None = None
    bounds: dict[int, int] = field(default_factory=dict)
    known: bool = True
    next_bound: int = 0
    next_value: int = 0
    hits: int = 0
    waits: int = 0
    linked: int = 0
    compared: int = 0


class ReplayTwin:
    """Replays turns that a recorder's twin has taken down. made: versions of each variable. read: of each
    stream, what its reads found."""

    def __init__(self, twin: Twin, turns: list[tuple[int, Any]], memory: bytes) -> None:
        self.twin, self.memory = twin, memory
        rows: dict[int, list[Any]] = defaultdict(list)
        for stream, some in turns:
            rows[stream] += list(some)
        self.streams = [Stream(rows[stream]) for stream in range(twin.agents + 1)]
        self.made: dict[int, int] = defaultdict(int)
        #: Of each byte what it held since which version of its variable.
        self.history: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.read: list[list[int]] = [[] for _ in self.streams]
        self.switches = 0
        self._last: dict[tuple[int, int], int] = defaultdict(int)
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}
        self._written: dict[tuple[int, int], int] = defaultdict(int)

    def run(self) -> bool:
        """Until all have ended. False if nobody can go on."""
        at, n = len(self.streams) - 1, len(self.streams)
        while True:
            ready = [k % n for k in range(at + 1, at + 1 + n) if self._can_go_on(k % n)]
            if not ready:
                return all(stream.at == len(stream.rows) for stream in self.streams)
            at = ready[0]
            self.switches += 1
            self.streams[at].begun = True
            self._go_on(at)

    def _can_go_on(self, stream: int) -> bool:
        one = self.streams[stream]
        if one.begun and one.at == len(one.rows):
            return False
        return not one.needs or self.made[one.needs[0][0]] >= one.needs[0][1]

    def _go_on(self, number: int) -> None:
        stream = self.streams[number]
        while stream.at < len(stream.rows):
            row = stream.rows[stream.at]
            if row["flags"] & UNCACHED or not any(v in self.twin.shares for v in self._variables(row)):
                self._alone(number, row)
                stream.at += 1
                continue
            if stream.needs is None:
                self._look_up(number, row)
            assert stream.needs is not None
            while stream.needs and self.made[stream.needs[0][0]] >= stream.needs[0][1]:
                stream.needs.pop(0)
            if stream.needs:
                stream.waits += 1
                return
            self._do(number, row)
            stream.at, stream.needs = stream.at + 1, None

    def _alone(self, number: int, row: Any) -> None:
        if not row["flags"] & UNCACHED and row["kind"] != WRITE:
            self.read[number].append(int(row["old"]))

    def _variables(self, row: Any) -> list[int]:
        address, last = int(row["addr"]), int(row["addr"]) + int(row["size"]) - 1
        return list(dict.fromkeys((self.twin.variable(address), self.twin.variable(last))))

    def _logged(self, number: int, row: Any) -> list[int]:
        shares = self.twin.shares
        return [
            v for v in self._variables(row)
            if v in shares and not (shares[v][0] == number and int(row["seq"]) < shares[v][1])
        ]  # fmt: skip

    def _look_up(self, number: int, row: Any) -> None:
        """What the evidence says of the stream's next access."""
        stream, double = self.streams[number], bool(self.twin.compressions & DOUBLE)
        stream.bounds, stream.known, stream.needs = {}, True, []
        for variable in self._logged(number, row):
            at = number, _slot(variable, self.twin.seen_bits)
            if row["kind"] == READ:
                seen = self.twin.bounds[number][stream.next_bound]
                stream.next_bound += 1
                stream.known &= double and self._seen.get(at) == (variable, seen) and seen % 2 == 0
                version = (seen + 1) // 2 if double else seen
                self._seen[at] = variable, seen
                stream.needs.append((variable, version))
            else:
                version = self._next_write(number, variable)
                self._seen[at] = variable, version * (2 if double else 1)
                stream.needs.append((variable, version - 1))
            stream.bounds[variable] = version

    def _next_write(self, number: int, variable: int) -> int:
        """The version of the stream's next write: the next place of the order that names it."""
        done, order = self._written[number, variable], self.twin.orders[variable]
        places = [k for k, writer in enumerate(order) if writer == number]
        self._written[number, variable] += 1
        return self.twin.shares[variable][2] + places[done] + 1

    def _do(self, number: int, row: Any) -> None:
        stream, logged = self.streams[number], self._logged(number, row)
        address, size = int(row["addr"]), int(row["size"])
        at = number, _slot(address, self.twin.shadow_bits)
        if row["kind"] != WRITE:
            self.read[number].append(self._value(number, row, logged))
        if row["kind"] != READ:
            for variable in self._variables(row):
                self.made[variable] += 1
            for k in range(size):
                byte = (int(row["new"]) >> (8 * k)) & 0xFF
                version = self.made[self.twin.variable(address + k)]
                self.history[address + k].append((version, byte))
            if logged:
                self._last[at] = int(row["new"])
        stream.bounds = {}

    def _value(self, number: int, row: Any, logged: list[int]) -> int:
        stream, double = self.streams[number], self.twin.compressions & DOUBLE
        limits = {v: stream.bounds[v] - (row["kind"] == RMW) for v in logged}
        if not logged:
            return int(row["old"])
        if row["kind"] == RMW or stream.known:
            found = self._held(row, limits)
            if row["kind"] == RMW and not double:
                assert self._from_log(number, row) == found
            return found
        value = self._from_log(number, row)
        stream.linked += 1
        while True:
            stream.compared += 1
            wrong = self._wrong_word(row, limits, value)
            if wrong is None:
                return value
            # Before the newest write to that word, all words of the variable at one moment.
            limits[wrong[0]] = wrong[1] - 1

    def _held(self, row: Any, limits: dict[int, int]) -> int:
        """What memory held at these versions; of variables that are not logged, what was read."""
        value = 0
        for k in range(int(row["size"])):
            byte = self._byte(int(row["addr"]) + k, limits)
            value |= (((int(row["old"]) >> (8 * k)) & 0xFF) if byte is None else byte) << (8 * k)
        return value

    def _byte(self, address: int, limits: dict[int, int]) -> int | None:
        variable = self.twin.variable(address)
        if variable not in limits:
            return None
        held = [byte for version, byte in self.history[address] if version <= limits[variable]]
        return held[-1] if held else self.memory[address]

    def _wrong_word(self, row: Any, limits: dict[int, int], value: int) -> tuple[int, int] | None:
        """The first word that held something else: its variable, and the version that wrote that word."""
        address, size = int(row["addr"]), int(row["size"])
        for word in dict.fromkeys((address >> 3, (address + size - 1) >> 3)):
            mine = [k for k in range(size) if (address + k) >> 3 == word]
            held = self._held(row, limits)
            if all((held >> (8 * k)) & 0xFF == (value >> (8 * k)) & 0xFF for k in mine):
                continue
            variable = self.twin.variable(word << 3)
            versions = [
                version
                for byte in range(word << 3, (word << 3) + 8)
                for version, _ in self.history[byte]
                if version <= limits[variable]
            ]
            return variable, max(versions)
        return None

    def _from_log(self, number: int, row: Any) -> int:
        stream, values = self.streams[number], self.twin.values[number]
        at = number, _slot(int(row["addr"]), self.twin.shadow_bits)
        if stream.next_value < len(values):
            value, hits = values[stream.next_value]
            if stream.hits < hits:
                stream.hits += 1
                return self._last[at]
            stream.next_value, stream.hits = stream.next_value + 1, 0
            self._last[at] = value
            return value
        assert self.twin.compressions & PREDICT
        return self._last[at]
