"""Tiny random runs of cores with caches, step by step in plain Python, and what their tenures prove,
likewise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corebraid.base.rows.event import EVENT, OWNED, READ, RMW, WRITE
from corebraid.base.rows.record import MISS, MISS_OWNED, MISS_WRITE, RECORD
from recorder.evidence.losses.log import DOWNGRADED, LOSS, LOST
from solver.regions.traces import Events, MemoryTraces

LINE, LINES = 16, 3
MEMORY = LINE * LINES
#: How a core holds a line: with others, alone, alone and written to.
SHARED, EXCLUSIVE, MODIFIED = 1, 2, 3


@dataclass
class _Core:
    count: int = 0
    held: dict[int, int] = field(default_factory=dict)
    losses: list[tuple[int, ...]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    records: list[tuple[int, ...]] = field(default_factory=list)
    blob: bytearray = field(default_factory=bytearray)


class Run:
    """A random run of 2 to 4 cores and agents, whose bus is a MESI in plain Python. order: the stream of each
    row, as it ran. careless: records of a line that is lost are left out now and then, which no machine does.
    steps: how many there are, of 2 or 3 cores; else it is drawn. stops: whether instructions make more than
    one access, of which losses say less (`Begins.loose`), and reads are stopped after they obtained their
    lines. forgetting: at some strata all cores give back all, as where an interval of a ring begins.
    agents_say: whether agents' rows are OWNED where a core had the line alone, as of all but some
    seeds."""

    def __init__(
        self,
        seed: int,
        careless: bool = False,
        *,
        steps: int = 0,
        stops: bool = True,
        forgetting: bool = False,
    ) -> None:
        self._rng = rng = random.Random(seed)
        self._careless, self._several, self._forgetting = careless, stops, forgetting
        self.memory = bytearray(rng.randrange(3) for _ in range(MEMORY))
        self.before = bytes(self.memory)
        self.cores = [_Core() for _ in range(rng.randint(2, 3 if steps else 4))]
        self.agents: list[tuple[int, ...]] = []
        self._domain = rng.choice((2, 3, 200))
        self._agent, self._evict = rng.choice((0, 0, 0.1)), rng.choice((0, 0, 0.1))
        self.unbounded, self.agents_say = not self._evict, seed % 5 > 0
        self._cut = 0.1 if forgetting else rng.choice((0, 0.05))
        self._stop = rng.choice((0, 0.1)) if stops else 0
        self._reads, self._stay = rng.choice((0.3, 0.6)), rng.choice((0.3, 0.8))
        self.strata: list[list[int]] = []
        self.order: list[int] = []
        k = 0
        for _ in range(steps or rng.randint(10, 60)):
            if rng.random() > self._stay:
                k = rng.randrange(len(self.cores))
            self._step(k)

    def _claim(self, stream: int, line: int, for_write: bool) -> bool:
        """A stream takes a line from all others, or their right to write to it. Whether one had it."""
        had = False
        for k, core in enumerate(self.cores):
            if k == stream or line not in core.held:
                continue
            had = True
            if for_write:
                del core.held[line]
                self._lose(core, line, LOST)
            elif core.held[line] != SHARED:
                core.held[line] = SHARED
                self._lose(core, line, DOWNGRADED)
        return had

    def _lose(self, core: _Core, line: int, way: int) -> None:
        core.losses.append((core.count, line * LINE, len(self.strata), way))

    def _owned(self, line: int) -> bool:
        """Whether a core has the line alone."""
        return any(core.held.get(line, SHARED) != SHARED for core in self.cores)

    def _obtain(self, k: int, line: int, for_write: bool = False) -> None:
        core = self.cores[k]
        if line in core.held:
            if for_write and core.held[line] == SHARED:
                self._claim(k, line, True)
            core.held[line] = MODIFIED if for_write else core.held[line]
            return
        if self._careless and self._rng.random() < 0.3:
            return
        flags = (MISS_OWNED if self._owned(line) else 0) | (MISS_WRITE if for_write else 0)
        shared = self._claim(k, line, for_write)
        core.held[line] = MODIFIED if for_write else SHARED if shared else EXCLUSIVE
        core.records.append((core.count, line * LINE, 0, len(core.blob), LINE, MISS, flags))
        core.blob += self.memory[line * LINE : (line + 1) * LINE]

    def _row(self, stream: int, rows: list[tuple[int, ...]], count: int) -> None:
        rng = self._rng
        size = rng.choice((1, 2, 4, 8))
        address = min(rng.randrange(0, MEMORY, rng.choice((1, 2, 8))), MEMORY - size)
        kind = READ if rng.random() < self._reads else rng.choice((WRITE, RMW))
        old = new = int.from_bytes(self.memory[address : address + size], "little")
        if kind != READ:
            new = int.from_bytes(bytes(rng.choices(range(self._domain), k=size)), "little")
        lines = range(address // LINE, (address + size - 1) // LINE + 1)
        flags = OWNED if stream == len(self.cores) and any(map(self._owned, lines)) else 0
        if stream == len(self.cores) or self._careless:
            for line in lines:
                self._claim(stream, line, kind != READ)
        # A core's atomic access reads its lines before it wants to write to them.
        for for_write in (False, True) if stream < len(self.cores) else ():
            for line in lines if kind in (RMW, WRITE if for_write else READ) else ():
                self._obtain(stream, line, for_write)
        self.memory[address : address + size] = new.to_bytes(size, "little")
        stratum = len(self.strata)
        rows.append((len(rows), count, 0, address, old, new, stratum, stream, size, kind, flags))
        self.order.append(stream)

    def _step(self, k: int) -> None:
        rng, core = self._rng, self.cores[k]
        if rng.random() < self._agent:
            self._row(len(self.cores), self.agents, len(self.agents))
        elif rng.random() < self._evict and core.held:
            del core.held[rng.choice(sorted(core.held))]
        elif rng.random() < self._stop:
            # An access that obtains its line and is stopped.
            self._obtain(k, rng.randrange(LINES))
        else:
            # One instruction makes several accesses, and nobody comes between.
            for _ in range(rng.choice((1, 1, 1, 2)) if self._several else 1):
                self._row(k, core.rows, core.count)
            core.count += rng.randrange(1, 3)
        if rng.random() < self._cut:
            for one in self.cores:
                one.count += 1
            self.strata.append([*(one.count for one in self.cores), len(self.agents)])
            if self._forgetting:
                for one in self.cores:
                    one.held.clear()

    def lost(self) -> list[Events]:
        """What each core lost: LOSS (n,)."""
        return [np.array(core.losses, LOSS) for core in self.cores]

    def traces(self, *, losses: bool = False) -> MemoryTraces:
        """The run as traces with miss records. losses: with what the cores lost."""
        rows = [np.array(rows, EVENT) for rows in (*(core.rows for core in self.cores), self.agents)]
        strata = np.array(self.strata, np.uint64).reshape(-1, len(rows))
        before, after = (np.frombuffer(bytes(memory), np.uint8) for memory in (self.before, self.memory))
        logs = [
            (np.array(core.records, RECORD), np.frombuffer(bytes(core.blob), np.uint8)) for core in self.cores
        ]
        traces = MemoryTraces(rows, strata, before, after, chunk_rows=3, line_bytes=LINE, logs=logs)
        traces.misses_prove_writes = traces.unbounded = self.unbounded
        traces.agents_say_owned = self.agents_say
        traces.lost = self.lost() if losses else []
        return traces

    def ranks(self) -> list[list[int]]:
        """When each row of each stream ran."""
        found: list[list[int]] = [[] for _ in range(len(self.cores) + 1)]
        for number, stream in enumerate(self.order):
            found[stream].append(number)
        return found


# -- the rules in plain Python ---------------------------------------------------------------------------


@dataclass
class Tenure:
    """A piece of a tenure. rows: numbers in the region; contents: the line before its first access, and after
    each of its writes, by row. owned: whether an agent got the line from a core that had it alone."""

    stream: int
    line: int
    went_on: bool
    before: bytes = b""
    rows: list[int] = field(default_factory=list)
    writes: dict[int, bytes] = field(default_factory=dict)
    earlier: Tenure | None = None
    flags: int = 0
    owned: bool | None = None


def naive_tenures(run: Run) -> list[list[Tenure]]:
    """The pieces of tenures of every region."""
    regions: list[list[Tenure]] = [[] for _ in range(len(run.strata) + 1)]
    for k, core in enumerate(run.cores):
        open_: dict[int, Tenure] = {}
        content: dict[int, bytes] = {}
        flags: dict[int, int] = {}
        left, region, first = list(core.records), 0, 0
        for number, row in enumerate(core.rows):
            while region < row[6]:
                region, first = region + 1, number
                for line in open_:
                    open_[line] = Tenure(-1, line, True)
            while left and left[0][0] <= row[1]:
                _, address, _, offset, size, _, flags[address // LINE] = left.pop(0)
                content[address // LINE] = bytes(core.blob[offset : offset + size])
                open_.pop(address // LINE, None)
            for line in range(row[3] // LINE, (row[3] + row[8] - 1) // LINE + 1):
                now = open_.get(line)
                if now is None or now.stream < 0:
                    same = [t for t in regions[row[6]] if (t.stream, t.line) == (k, line)]
                    earlier = same[-1] if same and now is None else None
                    now = open_[line] = Tenure(k, line, now is not None, content[line], earlier=earlier)
                    now.flags = flags[line]
                    regions[row[6]].append(now)
                now.rows.append(number - first)
                if row[9] != READ:
                    held = bytearray(content[line])
                    for b, value in enumerate(row[5].to_bytes(8, "little")[: row[8]]):
                        if (row[3] + b) // LINE == line:
                            held[row[3] + b - line * LINE] = value
                    content[line] = now.writes[number - first] = bytes(held)
    firsts = [0] * (len(run.strata) + 1)
    for region, cut in enumerate(run.strata):
        firsts[region + 1] = cut[-1]
    for number, row in enumerate(run.agents):
        lines = range(row[3] // LINE, (row[3] + row[8] - 1) // LINE + 1)
        owned = bool(row[10] & OWNED) if run.agents_say and len(lines) == 1 else None
        for line in lines:
            here = number - firsts[row[6]]
            writes = {here: b""} if row[9] != READ else {}
            regions[row[6]].append(Tenure(len(run.cores), line, False, b"", [here], writes, owned=owned))
    return regions


Row = tuple[int, int]


class Naive:
    """What the rules prove of a region, as a set of pairs of rows."""

    def __init__(
        self,
        tenures: list[Tenure],
        n_streams: int,
        unbounded: bool,
        had: Sequence[Row] = (),
        more: Sequence[Row] = (),
    ) -> None:
        """had: streams and lines of which it is known that they met. more: rows to be told of too."""
        lines = {t.line for t in tenures}
        met = {*had, *((t.stream, t.line) for t in tenures)}
        hot = [
            line
            for line in lines
            if len({stream for stream, other in met if other == line}) > 1
            and any(t.writes for t in tenures if t.line == line)
        ]
        self.tenures = [t for t in tenures if t.line in hot]
        self.agents = n_streams - 1
        rows = {(t.stream, r) for t in self.tenures for r in (t.rows[0], t.rows[-1], *t.writes)} | {*more}
        self.rows = sorted(rows)
        self.before = {(a, b) for a in rows for b in rows if a[0] == b[0] and a[1] < b[1]}
        self.writes = [((t.stream, r), t, after) for t in self.tenures for r, after in t.writes.items()]
        self.wrong = False
        size = -1
        while self._size() != size and not self.wrong:
            size = self._size()
            for tenure in self.tenures:
                self._foreign(tenure)
            self._close()
            for tenure in self.tenures:
                self._contents(tenure)
            self._close()
            for tenure in self.tenures if unbounded and not self.wrong else ():
                self._missed(tenure)
            self._close()
            self._further()
            self._close()

    def _size(self) -> int:
        """Of what is known, which only grows."""
        return len(self.before)

    def _further(self) -> None:
        """Rules of those who know more."""

    def _missed(self, t: Tenure) -> None:
        """Somebody wrote to the line between a tenure of a core and its next one."""
        if t.earlier is None:
            return
        first, last = (t.stream, t.rows[0]), (t.stream, t.earlier.rows[-1])
        on_line = [w for w, other, _ in self.writes if other.line == t.line and w[0] != t.stream]
        may = [w for w in on_line if (w, last) not in self.before and (first, w) not in self.before]
        self.wrong = self.wrong or not may
        leasts = [min(w for w in may if w[0] == s) for s in {w[0] for w in may}]
        mosts = [max(w for w in may if w[0] == s) for s in {w[0] for w in may}]
        for x in self.rows if may else ():
            if x[0] != t.stream and all(x == w or (x, w) in self.before for w in leasts):
                self.before.add((x, first))
            if x[0] != t.stream and all(x == w or (w, x) in self.before for w in mosts):
                self.before.add((last, x))

    def _close(self) -> None:
        again = True
        while again:
            after: dict[Row, set[Row]] = {}
            for a, b in self.before:
                after.setdefault(a, set()).add(b)
            more = {(a, c) for a, b in self.before for c in after.get(b, ())}
            again = not more <= self.before
            self.before |= more
        self.wrong = self.wrong or any((a, a) in self.before for a in self.rows)

    def _foreign(self, t: Tenure) -> None:
        first, last = (t.stream, t.rows[0]), (t.stream, t.rows[-1])
        for w, other, _ in self.writes:
            if other.line != t.line or other.stream == t.stream:
                continue
            if t.went_on or (first, w) in self.before:
                self.before.add((last, w))
            if (w, last) in self.before and not t.went_on:
                self.before.add((w, first))

    def _start(self, line: int) -> bytes | None:
        """The bytes of a line at the region's begin, if they are known."""
        writing = [t for t in self.tenures if t.line == line and t.writes]
        balance: dict[bytes, int] = {}
        for t in writing:
            balance[t.before] = balance.get(t.before, 0) + 1
            after = t.writes[max(t.writes)]
            balance[after] = balance.get(after, 0) - 1
        more = [content for content, n in balance.items() if n == 1]
        if more:
            return more[0]
        known = [t.before for t in self.tenures if t.line == line and t.went_on]
        return known[0] if known else None

    def _contents(self, t: Tenure) -> None:
        on_line = [(w, other, after) for w, other, after in self.writes if other.line == t.line]
        agents = any(other.stream == self.agents for _, other, _ in on_line)
        if t.went_on or t.stream == self.agents or agents:
            return
        first, last = (t.stream, t.rows[0]), (t.stream, t.rows[-1])
        known = [w for w, other, _ in on_line if (w, first) in self.before]
        found = []
        for w, other, after in on_line:
            ends = w[1] == max(other.writes)
            if after != t.before or other is t or (t.writes and other.stream != t.stream and not ends):
                continue
            if w[0] == t.stream and (w, first) not in self.before:
                continue
            overwritten = (w, first) in self.before and any((w, x) in self.before for x in known)
            if (first, w) in self.before or overwritten:
                continue
            found.append(w)
        start = self._start(t.line)
        begins = not known and start in (None, t.before)
        if begins and not found:
            self.before |= {(last, w) for w, other, _ in on_line if other.stream != t.stream}
        elif not begins and not found:
            self.wrong = True
        elif not begins:
            for x in self.rows:
                if x[0] != t.stream and all(x == w or (x, w) in self.before for w in found):
                    self.before.add((x, first))
            for w, other, _ in on_line:
                if other.stream != t.stream and all((x, w) in self.before for x in found):
                    self.before.add((last, w))
            if len(found) == 1:
                self.before |= {(x, found[0]) for x in known if x != found[0]}


def pairs_of(clocks: Any, n_streams: int) -> set[tuple[Row, Row]]:
    """What clocks say, as pairs of rows of different streams."""
    found = set()
    for t in range(n_streams):
        for here in range(clocks.ptr[t], clocks.ptr[t + 1]):
            for u in range(n_streams):
                for there in range(clocks.ptr[u], clocks.ptr[u] + clocks.clock[here, u]):
                    if u != t:
                        found.add(((u, int(clocks.row[there])), (t, int(clocks.row[here]))))
    return found
