"""What tenures and losses prove under TSO, in plain Python: pairs of nodes, each rule from every pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tenure_buffered_pieces import Node, Piece, Pieces

from corebraid.base.rows.record import MISS
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, WAY
from solver.regions.traces import MemoryTraces
from solver.sifting.strata import iter_regions


@dataclass(eq=False)
class Span:
    """A time from begin to end, None: from before the region, or until after it."""

    owner: int
    line: int
    begin: Node | None
    end: Node | None


class NaiveBuffered(Pieces):
    """All that is known of a region. log: of each core's miss records in turn instruction count, and how many
    stores of the region had committed. losses: whether what the cores noted is used. by_writes: whether a
    miss proves a foreign write. wrong: whether it contradicts itself."""

    def __init__(
        self, region: Any, log: list[list[tuple[int, int]]], *, losses: bool, by_writes: bool
    ) -> None:
        self._log = log
        super().__init__(region, losses=losses)
        self.before: set[tuple[Node, Node]] = set()
        self.wrong = False
        for core in range(self.n):
            self._tie(core)
        self._sync(region.places.tolist())
        self._close()
        self.holds, self.alone = self._spans() if losses and not self.wrong else ([], [])
        self._to_fixed_point(by_writes)

    # -- what holds within a core, and by sync points ------------------------------------------------------

    def _in(self, stream: int) -> list[Node]:
        return [node for node in self.nodes if node[0] == stream]

    def _tell(self, a: Node, b: Node) -> None:
        if a[0] == b[0] and a[1] >= b[1]:
            self.wrong = True
        self.before.add((a, b))

    def _tie(self, core: int) -> None:
        begins, ties = self._begins[core], self._ties[core]
        loads, stores, records = (self._in(core + k * self.n + (k > 0)) for k in range(3))
        pairs = [(a, b) for some in (loads, stores, records) for a in some for b in some if a < b]
        pairs += [(s, a) for a in loads for s in stores if s[1] < ties.need[a[1]]]
        pairs += [(a, s) for a in loads for s in stores if a[1] < ties.loads_before[s[1]]]
        for rows, places in ((loads, begins.loads_before), (stores, begins.stores_before)):
            pairs += [(a, r) if a[1] < places[r[1]] else (r, a) for r in records for a in rows]
        self.before |= set(pairs)
        for node, piece, i in self._lost:
            if piece.owner == core:
                self._tie_loss(node, piece, i, loads, stores, records)

    def _tie_loss(
        self, node: Node, piece: Piece, i: int, loads: list[Node], stores: list[Node], records: list[Node]
    ) -> None:
        """Where a loss stands: by its count, and by which line it is."""
        core = piece.owner
        begins, ties, rows = self._begins[core], self._ties[core], self._cores[core]
        count = int(begins.losses.at[i])
        self.before |= {(a, node) for a in self._in(node[0]) if a < node}
        stood = sum(int(row["count"]) < count for row in rows.loads)
        self.before |= {(a, node) if a[1] < stood else (node, a) for a in loads}
        low, high = self._committed(core, count)
        for s in stores:
            if s[1] < low or (stood and s[1] < ties.need[stood - 1]):
                self._tell(s, node)
            if s[1] >= high or ties.loads_before[s[1]] > stood:
                self._tell(node, s)
        self.before |= {(r, node) for r in records if begins.at[r[1]] < count}
        self.before |= {(node, r) for r in records if begins.at[r[1]] > count}
        if not piece.went_on:
            self._tell(piece.record, node)
        if node == piece.lost:
            after = [p.record for p in self.pieces if (p.owner, p.line) == (core, piece.line)]
            self.before |= {(node, r) for r in after if r > piece.record}
            self.before |= {(part[-1], node) for part in piece.parts.values()}

    def _committed(self, core: int, count: int) -> tuple[int, int]:
        """How many stores had committed at the last record of a lower count, at the first of a higher."""
        places = self._log[core]
        low = max([s for at, s in places if at < count], default=0)
        return low, min([s for at, s in places if at > count], default=len(self._cores[core].stores))

    def _sync(self, points: list[list[int]]) -> None:
        for j, then in enumerate(points):
            before: set[Node] = set()
            for point in points[: j + 1]:
                before |= {node for node in self._in(self.n) if node[1] < point[AGENT_ROW]}
                if point[WAY] & ENTER:
                    before |= {node for node in self._in(point[CORE]) if node[1] < point[CORE_ROW]}
                    store = self.n + 1 + point[CORE]
                    before |= {node for node in self._in(store) if node[1] < point[STORE_ROW]}
            waits: set[Node] = set()
            if then[WAY] & ENTER:
                waits |= {node for node in self._in(self.n) if node[1] >= then[AGENT_ROW]}
            if then[WAY] & LEAVE:
                waits |= {node for node in self._in(then[CORE]) if node[1] >= then[CORE_ROW]}
                store = self.n + 1 + then[CORE]
                waits |= {node for node in self._in(store) if node[1] >= then[STORE_ROW]}
            self.before |= {(a, b) for a in before for b in waits if a[0] != b[0]}
        agents = self._in(self.n)
        self.before |= {(a, b) for a in agents for b in agents if a < b}

    # -- spans of time -------------------------------------------------------------------------------------

    def _spans(self) -> tuple[list[Span], list[Span]]:
        holds, alone = [], []
        for piece in self.pieces:
            if piece.owner == self.n:
                holds.append(Span(self.n, piece.line, piece.record, piece.record))
                alone += [Span(self.n, piece.line, node, node) for node, _ in piece.writes]
            elif piece.line not in self._begins[piece.owner].loose:
                begin = None if piece.went_on else piece.record
                holds.append(Span(piece.owner, piece.line, begin, piece.lost))
                alone += self._alone_in(piece, begin)
        return holds, alone

    def _alone_in(self, piece: Piece, begin: Node | None) -> list[Span]:
        """Between two downgrades, from the first write that is known to stand there; other writes by
        themselves."""
        writes, downs = [node for node, _ in piece.writes], piece.downgrades
        found = []
        for phase in range(len(downs) + 1):
            end = downs[phase] if phase < len(downs) else piece.lost
            sure = [
                w
                for w in writes
                if (phase == 0 or (downs[phase - 1], w) in self.before)
                and (phase == len(downs) or (w, downs[phase]) in self.before)
            ]
            unwritten = bool(downs) and (not writes or (downs[0], writes[0]) in self.before)
            if phase == 0 and (piece.for_write or unwritten):
                found.append(Span(piece.owner, piece.line, begin, end))
            elif sure:
                found.append(Span(piece.owner, piece.line, sure[0], end))
            writes = [w for w in writes if w not in sure]
        return found + [Span(piece.owner, piece.line, w, w) for w in writes]

    # -- the rules -----------------------------------------------------------------------------------------

    def _to_fixed_point(self, by_writes: bool) -> None:
        size = -1
        while len(self.before) != size and not self.wrong:
            size = len(self.before)
            for piece in self.pieces:
                self._foreign(piece)
                self._contents(piece)
                if by_writes:
                    self._missed(piece)
            for a in self.alone:
                for h in self.holds:
                    if h.line == a.line and h.owner != a.owner:
                        self._apart(a, h)
            for node, piece, _ in self._lost:
                if node == piece.lost and piece.line not in self._loose:
                    self._taken(node, piece)
            self._close()

    def _close(self) -> None:
        """Everything that follows from two steps."""
        after: dict[Node, set[Node]] = {node: set() for node in self.nodes}
        for a, b in self.before:
            after[a].add(b)
        for via in self.nodes:
            for a in self.nodes:
                if via in after[a]:
                    after[a] |= after[via]
        self.before = {(a, b) for a in self.nodes for b in after[a]}
        self.wrong = self.wrong or any((a, a) in self.before for a in self.nodes)

    def _others(self, piece: Piece) -> list[tuple[Node, Piece, bytes]]:
        return [
            (node, other, after)
            for other in self.pieces
            if other.line == piece.line and other.owner != piece.owner
            for node, after in other.writes
        ]

    def _foreign(self, piece: Piece) -> None:
        for w, _, _ in self._others(piece):
            for part in piece.parts.values():
                if piece.went_on or (piece.record, w) in self.before:
                    self._tell(part[-1], w)
                if (w, part[-1]) in self.before and not piece.went_on:
                    self._tell(w, piece.record)

    def _start(self, line: int) -> bytes | None:
        """The line's bytes at the region's begin, if they are known."""
        here = [piece for piece in self.pieces if piece.line == line]
        balance: dict[bytes, int] = {}
        for piece in here:
            if piece.writes:
                balance[piece.before] = balance.get(piece.before, 0) + 1
                balance[piece.writes[-1][1]] = balance.get(piece.writes[-1][1], 0) - 1
        found = [content for content, n in balance.items() if n == 1]
        found += [piece.before for piece in here if piece.went_on]
        return found[0] if found else None

    def _contents(self, piece: Piece) -> None:
        here = [other for other in self.pieces if other.line == piece.line]
        unsound = any(not other.known and (other.writes or other.owner < self.n) for other in here)
        if piece.went_on or piece.owner == self.n or unsound:
            return
        record, writes = piece.record, [(w, other, after) for other in here for w, after in other.writes]
        known = [w for w, _, _ in writes if (w, record) in self.before]
        found = []
        for w, other, after in writes:
            own, early = other.owner == piece.owner, (w, record) in self.before
            fits = after == piece.before and (own or not piece.writes or w == other.writes[-1][0])
            overwritten = early and any((w, x) in self.before for x in known)
            if fits and (early or not own) and (record, w) not in self.before and not overwritten:
                found.append(w)
        foreign = [w for w, _, _ in self._others(piece)]
        start = self._start(piece.line)
        begins = not known and start in (None, piece.before)
        if begins and not found:
            for part in piece.parts.values():
                self.before |= {(part[-1], w) for w in foreign}
        elif not found:
            self.wrong = True
        elif not begins:
            self._some_before(found, record)
            for part in piece.parts.values():
                late = [w for w in foreign if all((x, w) in self.before for x in found)]
                self.before |= {(part[-1], w) for w in late}
            if len(found) == 1:
                self.before |= {(x, found[0]) for x in known if x != found[0]}

    def _missed(self, piece: Piece) -> None:
        """Somebody wrote between the core's tenure on the line before and this one's record."""
        mine = [p for p in self.pieces if (p.owner, p.line) == (piece.owner, piece.line)]
        earlier = mine[: mine.index(piece)]
        if piece.owner == self.n or piece.went_on or not earlier:
            return
        lasts = [part[-1] for part in earlier[-1].parts.values()]
        may = [
            w
            for w, _, _ in self._others(piece)
            if not any((w, last) in self.before for last in lasts) and (piece.record, w) not in self.before
        ]
        self.wrong = self.wrong or not may
        self._some_before(may, piece.record)
        for last in lasts:
            self._some_after(may, last)

    def _apart(self, a: Span, h: Span) -> None:
        """A time alone and another's hold: one ends before the other begins."""
        earlier = a.end is None or h.begin is None or (h.begin, a.end) in self.before
        later = a.begin is None or h.end is None or (a.begin, h.end) in self.before
        if earlier and later:
            self.wrong = True
        elif earlier and h.end is not None and a.begin is not None:
            self._tell(h.end, a.begin)
        elif later and a.end is not None and h.begin is not None:
            self._tell(a.end, h.begin)

    def _taken(self, loss: Node, piece: Piece) -> None:
        """One of the others' times alone began when the line was lost."""
        core = piece.owner
        own = [node for k in range(3) for node in self._in(core + k * self.n + (k > 0))]
        then = [node for node in own if (loss, node) in self.before]
        may = [
            a.begin
            for a in self.alone
            if a.line == piece.line
            and a.owner != core
            and a.begin is not None
            and (a.begin, loss) not in self.before
            and not any(node == a.begin or (node, a.begin) in self.before for node in then)
        ]
        self.wrong = self.wrong or not may
        for node in then:
            self._some_before(may, node)
        self._some_after(may, loss)

    def _some_before(self, some: list[Node], then: Node) -> None:
        for x in self.nodes if some else ():
            if x[0] != then[0] and all(x == w or (x, w) in self.before for w in _ends(some, min)):
                self.before.add((x, then))

    def _some_after(self, some: list[Node], first: Node) -> None:
        for x in self.nodes if some else ():
            if x[0] != first[0] and all(x == w or (w, x) in self.before for w in _ends(some, max)):
                self.before.add((first, x))

    def pairs(self) -> set[tuple[Node, Node]]:
        """What is known of rows of different streams."""
        rows = 2 * self.n + 1
        return {(a, b) for a, b in self.before if a[0] != b[0] and a[0] < rows and b[0] < rows}


def _ends(nodes: list[Node], end: Any) -> list[Node]:
    """Of each stream the first or the last."""
    return [end([node for node in nodes if node[0] == s]) for s in sorted({node[0] for node in nodes})]


def naive_buffered(traces: MemoryTraces, *, losses: bool) -> Iterator[tuple[Any, NaiveBuffered]]:
    """(region, all that is known of it) of every region."""
    by_writes, n = traces.misses_prove_writes, traces.buffered
    done = [0] * n
    for region in iter_regions(traces):
        log = []
        for core in range(n):
            stores = len(region.streams[n + 1 + core])
            misses = [row for row in traces.logs[core][0] if row["kind"] == MISS]
            log.append([(int(m["count"]), min(max(int(m["value"]) - done[core], 0), stores)) for m in misses])
            done[core] += stores
        yield region, NaiveBuffered(region, log, losses=losses and by_writes, by_writes=by_writes)
