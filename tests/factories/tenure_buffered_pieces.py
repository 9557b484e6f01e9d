"""The tenures of a region under TSO, in plain Python: their pieces, what each holds, and the losses noted.

A node is (stream, number): of the loads, the agents, the stores (rows), the records (numbers of
`BufferedBegins`) and the losses, as in `solver.tenures.buffered_clocks`. Which record each row and loss goes
with, and what program order says, is taken from the scan and from `core_rows`, which have tests of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.tiny_runs import LINE
from corebraid.base.rows.event import READ, UNCACHED
from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import LOST
from solver.regions.program_order import core_rows
from solver.tenures.buffered_lines import ties_of
from solver.tenures.scan import CONTINUED

Node = tuple[int, int]


@dataclass(eq=False)
class Piece:
    """A tenure's piece. record: its node; parts: its rows of each chain; writes: in program order, with the
    line behind each. number: of the core's begins, -1 of an agent's access."""

    owner: int
    line: int
    number: int
    record: Node
    went_on: bool
    before: bytes = b""
    for_write: bool = False
    known: bool = True
    parts: dict[int, list[Node]] = field(default_factory=dict)
    writes: list[tuple[Node, bytes]] = field(default_factory=list)
    downgrades: list[Node] = field(default_factory=list)
    lost: Node | None = None


def _lines(row: Any) -> range:
    return range(int(row["addr"]) // LINE, (int(row["addr"]) + int(row["size"]) - 1) // LINE + 1)


class Pieces:
    """What there is in a region. hot: lines that several touch, and somebody writes to. pieces: of tenures of
    those. nodes: of all. losses: whether what the cores noted is taken."""

    def __init__(self, region: Any, *, losses: bool) -> None:
        self._begins = region.tenures.begins
        self.n = len(self._begins)
        self._cores = [core_rows(region, core) for core in range(self.n)]
        self._ties = [ties_of(rows, begins) for rows, begins in zip(self._cores, self._begins, strict=True)]
        streams = [[row for piece in rows.pieces() for row in piece.copy()] for rows in region.streams]
        self._agents = streams[self.n]
        self.hot = self._hot(streams)
        self.pieces = [piece for core in range(self.n) for piece in self._of_core(core)]
        self.pieces += self._of_agents()
        self._loose = {int(line) for begins in self._begins for line in begins.loose} if losses else set()
        self._lost: list[tuple[Node, Piece, int]] = []
        if losses:
            self._note_losses()
        self.nodes = self._nodes()

    def _hot(self, streams: list[list[Any]]) -> set[int]:
        """Lines that several touch, and somebody writes to."""
        who: dict[int, set[int]] = {}
        written = set()
        for stream, rows in enumerate(streams):
            owner = stream if stream <= self.n else stream - self.n - 1
            for row in rows:
                for line in () if row["flags"] & UNCACHED else _lines(row):
                    who.setdefault(line, set()).add(owner)
                    if row["kind"] != READ:
                        written.add(line)
        return {line for line in written if len(who[line]) > 1}

    def _of_core(self, core: int) -> list[Piece]:
        begins, rows = self._begins[core], self._cores[core]
        found: dict[int, Piece] = {}
        both = [(int(row["seq"]), core, i, row) for i, row in enumerate(rows.loads)]
        both += [(int(row["seq"]), self.n + 1 + core, j, row) for j, row in enumerate(rows.stores)]
        for _, stream, number, row in sorted(both, key=lambda one: one[0]):
            if row["flags"] & UNCACHED:
                continue
            answered = stream == core and row["kind"] == READ and rows.source[number] >= 0
            if answered and rows.source[number] >= self._ties[core].need[number]:
                continue
            firsts = begins.load if stream == core else begins.store
            for line in _lines(row):
                mine = [k for k in range(len(firsts)) if begins.line[k] == line and 0 <= firsts[k] <= number]
                if line in self.hot and mine:
                    k = max(mine, key=lambda k: firsts[k])
                    self._touch(found.setdefault(k, self._piece(core, k)), (stream, number), row)
        return [found[k] for k in sorted(found)]

    def _piece(self, core: int, k: int) -> Piece:
        begins = self._begins[core]
        record, went_on = (2 * self.n + 1 + core, k), bool(begins.how[k] == CONTINUED)
        for_write = not went_on and bool(begins.flags[k] & MISS_WRITE)
        return Piece(core, int(begins.line[k]), k, record, went_on, bytes(begins.image[k]), for_write)

    @staticmethod
    def _touch(piece: Piece, node: Node, row: Any) -> None:
        piece.parts.setdefault(node[0], []).append(node)
        if row["kind"] == READ:
            return
        held = bytearray(piece.writes[-1][1] if piece.writes else piece.before)
        for b in range(int(row["size"])):
            at = int(row["addr"]) + b - piece.line * LINE
            if 0 <= at < LINE:
                piece.known = piece.known and held[at] == (int(row["old"]) >> (8 * b)) & 0xFF
                held[at] = (int(row["new"]) >> (8 * b)) & 0xFF
        piece.writes.append((node, bytes(held)))

    def _of_agents(self) -> list[Piece]:
        found = []
        for number, row in enumerate(self._agents):
            for line in () if row["flags"] & UNCACHED else _lines(row):
                if line in self.hot:
                    node = self.n, number
                    piece = Piece(self.n, line, -1, node, False, known=False, parts={self.n: [node]})
                    piece.writes = [] if row["kind"] == READ else [(node, b"")]
                    found.append(piece)
        return found

    def _note_losses(self) -> None:
        for core, begins in enumerate(self._begins):
            mine = {int(begins.number[p.number]): p for p in self.pieces if p.owner == core}
            told = set(begins.loose.tolist())
            for i, number in enumerate(begins.losses.piece.tolist()):
                piece = mine.get(number)
                if piece is None or piece.line in told:
                    continue
                node = 3 * self.n + 1 + core, sum(p.owner == core for _, p, _ in self._lost)
                self._lost.append((node, piece, i))
                if begins.losses.way[i] == LOST:
                    piece.lost = node
                else:
                    piece.downgrades.append(node)

    def _nodes(self) -> list[Node]:
        found = {node for node, _, _ in self._lost}
        for piece in self.pieces:
            found |= {piece.record} | {node for node, _ in piece.writes}
            found |= {node for part in piece.parts.values() for node in (part[0], part[-1])}
        return sorted(found)
