"""The rules about losses in plain Python: over pairs of rows, from the time line of each core and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tenure_factory import LINE, Naive, Row, Run, Tenure, naive_tenures

from corebraid.base.rows.record import MISS_OWNED, MISS_WRITE
from recorder.evidence.losses.log import DOWNGRADED, LOST


@dataclass(eq=False)
class Loss:
    """A core loses a line after row `before` of the region, -1 for none. alone: whether it had it alone then,
    None if that is not known."""

    stream: int
    line: int
    before: int
    way: int
    alone: bool | None = None


@dataclass(eq=False)
class Span:
    """A stream has a line, or has it alone, from row `first`, None for since before the region, at least
    until row `last`. wrote: whether a write began it. owned: whether somebody else had the line alone before.
    open: whether it lasts beyond the region. ender: the loss that ends it."""

    stream: int
    line: int
    first: int | None
    wrote: bool
    owned: bool | None
    last: int = -1
    open: bool = False
    ender: Loss | None = None


def naive_losses(run: Run) -> list[list[Loss]]:
    """The losses of every region."""
    regions: list[list[Loss]] = [[] for _ in range(len(run.strata) + 1)]
    for k, core in enumerate(run.cores):
        for count, address, stratum, way in core.losses:
            before = sum(row[6] == stratum and row[1] < count for row in core.rows) - 1
            regions[stratum].append(Loss(k, address // LINE, before, way))
    return regions


class _Walk:
    """Along the time line of a core and line in a region: holds and spans alone are collected."""

    def __init__(self, n_rows: int, unbounded: bool) -> None:
        self._n_rows, self._unbounded = n_rows, unbounded
        self.holds: list[Span] = []
        self.alone: list[Span] = []

    def walk(self, pieces: list[Tenure], losses: list[Loss]) -> None:
        """pieces, losses: in order."""
        for piece, following in zip(pieces, [*pieces[1:], None], strict=True):
            end = following.rows[0] if following else self._n_rows
            mine = [loss for loss in losses if loss.before < end]
            losses = [loss for loss in losses if loss.before >= end]
            mine = [loss for loss in mine if piece.went_on or loss.before >= piece.rows[0]]
            self._hold(piece, mine, last=following is None)

    def _hold(self, piece: Tenure, losses: list[Loss], last: bool) -> None:
        owned = None if piece.went_on else bool(piece.flags & MISS_OWNED)
        wrote = not piece.went_on and bool(piece.flags & MISS_WRITE)
        first = None if piece.went_on else piece.rows[0]
        hold = Span(piece.stream, piece.line, first, wrote, owned, piece.rows[-1])
        self.holds.append(hold)
        alone: Span | None = None
        untouched = True
        happened: list[tuple[float, Loss | None]] = [(row, None) for row in piece.writes]
        happened += [(loss.before + 0.5, loss) for loss in losses]
        for when, loss in sorted(happened, key=lambda one: one[0]):
            if loss is None:
                if alone is None:
                    begun = self._first_write(hold, untouched)
                    alone = Span(piece.stream, piece.line, int(when), True, begun)
                    self.alone.append(alone)
            elif loss.way == DOWNGRADED:
                if alone is None and untouched and self._unbounded:
                    alone = Span(piece.stream, piece.line, hold.first, hold.wrote, hold.owned)
                    self.alone.append(alone)
                if alone is not None:
                    alone.last, alone.ender = loss.before, loss
                loss.alone, alone, untouched = True, None, False
            else:
                loss.alone = True if alone else None if untouched else False
                hold.last, hold.ender = max(loss.before, hold.last), loss
                break
        if hold.ender is None and last and self._unbounded:
            hold.last, hold.open = self._n_rows - 1, True
        if alone is not None:
            alone.last, alone.open, alone.ender = hold.last, hold.open, hold.ender

    @staticmethod
    def _first_write(hold: Span, untouched: bool) -> bool | None:
        """Whether a write that makes the line its own took it from one who had it alone."""
        if hold.wrote:
            return hold.owned if untouched else None
        # Others share it after one has read it, and after it came from one who had it alone.
        return False if not untouched or hold.owned else None


def naive_spans(
    tenures: list[Tenure], losses: list[Loss], n_rows: Sequence[int], unbounded: bool
) -> tuple[list[Span], list[Span]]:
    """(holds, spans alone) of a region. n_rows: of each stream; the last is the agents'."""
    holds: list[Span] = []
    alone: list[Span] = []
    agents = len(n_rows) - 1
    for stream, line in sorted({(t.stream, t.line) for t in tenures}):
        pieces = [t for t in tenures if (t.stream, t.line) == (stream, line)]
        if stream == agents:
            spans = [Span(stream, line, t.rows[0], bool(t.writes), t.owned, t.rows[0]) for t in pieces]
            holds += spans
            alone += [span for span in spans if span.wrote]
            continue
        walk = _Walk(n_rows[stream], unbounded)
        walk.walk(pieces, [loss for loss in losses if (loss.stream, loss.line) == (stream, line)])
        holds += walk.holds
        alone += walk.alone
    return holds, alone


class NaiveLosses(Naive):
    """All rules. n_rows: rows of each stream in the region."""

    def __init__(
        self, tenures: list[Tenure], losses: list[Loss], n_rows: Sequence[int], unbounded: bool
    ) -> None:
        met = {(t.stream, t.line) for t in tenures} | {(loss.stream, loss.line) for loss in losses}
        written = {t.line for t in tenures if t.writes}
        hot = {line for line in written if sum(line == other for _, other in met) > 1}
        self._n_rows, self._by_writes = n_rows, unbounded
        self._lost = [loss for loss in losses if loss.line in hot]
        here = [t for t in tenures if t.line in hot]
        self._holds, self._alone = naive_spans(here, self._lost, n_rows, unbounded)
        self._mates: dict[Loss, Span] = {}
        rows = {(loss.stream, row) for loss in self._lost for row in (loss.before, loss.before + 1)}
        for span in (*self._holds, *self._alone):
            rows |= {(span.stream, row) for row in (span.first, span.last) if row is not None}
            if not span.open and span.ender is None:
                after = [t.rows[0] for t in here if (t.stream, t.line) == (span.stream, span.line)]
                after = [span.last + 1] if span.stream == len(n_rows) - 1 else after
                rows |= {(span.stream, row) for row in after if row > span.last}
        more = sorted(row for row in rows if 0 <= row[1] < n_rows[row[0]])
        super().__init__(tenures, len(n_rows), unbounded, sorted(met), more)

    def _size(self) -> int:
        return len(self.before) + len(self._mates)

    def _further(self) -> None:
        for a in self._alone:
            for h in self._holds:
                if h.line == a.line and h.stream != a.stream:
                    self._apart(a, h)
        self._close()
        if not self._by_writes or self.wrong:
            return
        for a in self._alone:
            self._nobody_alone(a)
        for way, begins in ((LOST, self._alone), (DOWNGRADED, self._holds)):
            by = [span for span in begins if span.wrote == (way == LOST) and span.first is not None]
            lost = [loss for loss in self._lost if loss.way == way]
            for loss in lost:
                self._caused(loss, by)
            for span in by:
                if span.owned:
                    self._came_from(span, lost)

    def _tell(self, stream: int, row: int, other: int, then: int | None) -> None:
        """What is known of a row that does not exist says nothing; none comes before the region."""
        if then is None:
            self.wrong = True
        elif row >= 0 and then < self._n_rows[other]:
            if (stream, row) == (other, then):
                self.wrong = True
            elif stream != other or row >= then:
                self.before.add(((stream, row), (other, then)))

    def _knows(self, stream: int, row: int | None, other: int, then: int) -> bool:
        """Whether the one row is known to come before the other."""
        return row is None or ((stream, row), (other, then)) in self.before

    def _apart(self, a: Span, h: Span) -> None:
        earlier = a.open or self._knows(h.stream, h.first, a.stream, a.last)
        later = h.open or self._knows(a.stream, a.first, h.stream, h.last)
        if earlier and later:
            self.wrong = True
        elif earlier:
            self._tell(h.stream, h.last, a.stream, a.first)
        elif later:
            self._tell(a.stream, a.last, h.stream, h.first)

    def _nobody_alone(self, a: Span) -> None:
        cause = self._mates.get(a.ender) if a.ender else None
        if cause is None or cause.first is None:
            return
        for h in self._holds:
            if h.line != a.line or h.owned is not False or h.first is None:
                continue
            if self._knows(a.stream, a.first, h.stream, h.first):
                self._tell(cause.stream, cause.first, h.stream, h.first)
            if h.stream != a.stream and self._knows(h.stream, h.first, cause.stream, cause.first):
                self._tell(h.stream, h.last, a.stream, a.first)

    def _caused(self, loss: Loss, by: list[Span]) -> None:
        """Of these spans' first accesses one caused the loss."""

        def may(span: Span) -> bool:
            assert span.first is not None
            partner = self._mates.get(loss)
            others = [one for one, other in self._mates.items() if other is span and one.way == loss.way]
            spoken_for = loss.alone and span.owned and any(one is not loss for one in others)
            return not (
                span.line != loss.line
                or span.stream == loss.stream
                or spoken_for
                or partner not in (None, span)
                or (None not in (span.owned, loss.alone) and span.owned != loss.alone)
                or self._knows(span.stream, span.first, loss.stream, loss.before)
                or self._knows(loss.stream, loss.before + 1, span.stream, span.first)
            )  # fmt: skip

        found = [span for span in by if may(span)]
        if not found:
            self.wrong = True
        elif len(found) == 1 and loss.alone and found[0].owned:
            self._mates[loss] = found[0]
        rows = [(span.stream, span.first) for span in found if span.first is not None]
        self._some_before(rows, (loss.stream, loss.before + 1))
        self._some_after(rows, (loss.stream, loss.before))

    def _came_from(self, span: Span, lost: list[Loss]) -> None:
        """The line came from one who lost it then."""
        assert span.first is not None
        partners = [loss for loss, other in self._mates.items() if other is span and loss in lost]
        found = [
            loss
            for loss in partners or lost
            if loss.line == span.line
            and loss.stream != span.stream
            and loss.alone is not False
            and self._mates.get(loss) in (None, span)
            and not self._knows(loss.stream, loss.before + 1, span.stream, span.first)
            and not self._knows(span.stream, span.first, loss.stream, loss.before)
        ]
        if not found:
            self.wrong = True
        elif len(found) == 1 and found[0].alone:
            self._mates[found[0]] = span
        begins, ends = ([(loss.stream, loss.before + k) for loss in found] for k in (0, 1))
        if all(row >= 0 for _, row in _ends(begins, min)):
            self._some_before(begins, (span.stream, span.first))
        if all(row < self._n_rows[stream] for stream, row in _ends(ends, max)):
            self._some_after(ends, (span.stream, span.first))

    def _some_before(self, rows: list[Row], then: Row) -> None:
        if rows and then[1] < self._n_rows[then[0]]:
            for x in self.rows:
                if x[0] != then[0] and all(x == w or (x, w) in self.before for w in _ends(rows, min)):
                    self.before.add((x, then))

    def _some_after(self, rows: list[Row], first: Row) -> None:
        if rows and first[1] >= 0:
            for x in self.rows:
                if x[0] != first[0] and all(x == w or (w, x) in self.before for w in _ends(rows, max)):
                    self.before.add((first, x))


def _ends(rows: list[Row], end: Callable[[list[Row]], Row]) -> list[Row]:
    """Of each stream the first or the last of some rows."""
    return [end([row for row in rows if row[0] == s]) for s in sorted({row[0] for row in rows})]


def naive_regions(run: Run) -> Iterator[NaiveLosses]:
    """All that is known of each region of a run."""
    streams = [*(core.rows for core in run.cores), run.agents]
    for region, (tenures, losses) in enumerate(zip(naive_tenures(run), naive_losses(run), strict=True)):
        n_rows = [sum(row[6] == region for row in rows) for rows in streams]
        yield NaiveLosses(tenures, losses, n_rows, run.unbounded)
