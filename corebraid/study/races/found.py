"""What is told of races."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corebraid.study.races.suppressions import Suppression
from corebraid.study.races.turning import Turn
from corebraid.study.stacks import Stack

_KINDS = {"R": "read", "W": "wrote", "RMW": "updated"}
_TURNS = {
    Turn.HELD: "the order shows: in no order of the {window:,} accesses around them that takes memory "
    "through the same values do they come the other way round",
    Turn.UNDECIDED: "whether the order shows is not known",
    Turn.FREE: "benign in this run, {looked}: the other way round every read of the recording could have "
    "read what it read",
    Turn.SAME: "benign in this run, {looked}: neither changes what is there",
}
#: What comes first, of how the order mattered.
_WORST = (Turn.HELD, Turn.UNDECIDED, Turn.FREE, Turn.SAME)


@dataclass(frozen=True)
class Side:
    """One access of a race. event: as `corebraid pairs` names it. who: in words. kind: R, W or RMW. function:
    without the distance into it, '' for none. place: where, in words. stack: None: it is not known."""

    event: str
    who: str
    kind: str
    size: int
    old: int
    new: int
    pc: int | None
    function: str
    place: str
    line: str
    agent: str
    stack: Stack | None

    def text(self) -> str:
        """For people."""
        values = f"{self.old:#x}" if self.kind == "R" else f"{self.old:#x} -> {self.new:#x}"
        doing = f"{self.who} {_KINDS[self.kind]} {values} ({self.size} bytes)"
        line = f" ({self.line})" if self.line else ""
        where = f"as agent ({self.agent})" if self.agent else f"at {self.place}{line}"
        return f"{doing} {where}  [{self.event}]"

    def lines(self) -> list[str]:
        """`text`, and the stack."""
        frames = self.stack.lines()[1:] if self.stack is not None else []
        return [self.text(), *(f"  {one}" for one in frames)]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "event": self.event,
            "who": self.who,
            "kind": self.kind,
            "size": self.size,
            "old": f"{self.old:#x}",
            "new": f"{self.new:#x}",
            "pc": None if self.pc is None else f"{self.pc:#x}",
            "symbol": self.place or None,
            "line": self.line or None,
            "agent": self.agent or None,
            "stack": None if self.stack is None else self.stack.facts(),
        }


@dataclass(frozen=True)
class Race:
    """A pair of places. data: the name of what both touch, '' for none. times: racing accesses there. first,
    second: the first of them, as the order has them. turn: the worst of those that were looked at, `looked`
    of them; window: accesses among which. own: whether both are in the program's own code."""

    address: int
    data: str
    times: int
    first: Side
    second: Side
    turn: Turn
    looked: int
    window: int
    own: bool

    @property
    def functions(self) -> tuple[str, str]:
        """In which it is."""
        return self.first.function, self.second.function

    @property
    def rank(self) -> tuple[int, bool, bool, int, str]:
        """The least is the worst."""
        both_write = self.first.kind != "R" and self.second.kind != "R"
        return _WORST.index(self.turn), not self.own, not both_write, -self.times, self.first.event

    def lines(self) -> list[str]:
        """For people."""
        often = f", {self.times:,} times" if self.times > 1 else ""
        name = f"{self.data} ({self.address:#x})" if self.data else f"{self.address:#x}"
        of_all = "in all of them" if self.times > 1 else "proven"
        looked = (
            of_all if self.looked == self.times else f"in {self.looked} of {self.times:,} that were looked at"
        )
        turn = _TURNS[self.turn].format(window=self.window, looked=looked)
        indented = [f"  {one}" for side in (self.first, self.second) for one in side.lines()]
        return [f"race on {name}{often}", *indented, f"  {turn}"]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "address": f"{self.address:#x}",
            "data": self.data or None,
            "times": self.times,
            "order": self.turn.value,
            "looked_at": self.looked,
            "window": self.window,
            "own_code": self.own,
            "first": self.first.facts(),
            "second": self.second.facts(),
        }


@dataclass(frozen=True)
class Hit:
    """A suppression and how many races it has hidden."""

    suppression: Suppression
    races: int

    def facts(self) -> dict[str, object]:
        """As JSON."""
        one = self.suppression
        return {
            "where": one.where or "built in",
            "suppression": f"{one.one} {one.other} {one.data}",
            "reason": one.reason or None,
            "races": self.races,
        }


@dataclass(frozen=True)
class Races:
    """Of a recording. races: those that are told, the worst first. hits: suppressions that hid some, and
    those of a file that hid none. words: words that several threads use. accesses: to these. synchronising:
    bytes of them that synchronise. unordered: regions that have no order. left_out: accesses that could not
    be held against others. truncated: whether the recording has more accesses to shared words than can be
    held."""

    recording: Path
    races: tuple[Race, ...]
    hits: tuple[Hit, ...]
    words: int
    accesses: int
    synchronising: int
    unordered: tuple[int, ...]
    left_out: int
    truncated: bool
    missing_edges: tuple[str, ...]

    @property
    def hidden(self) -> int:
        """Races that suppressions have hidden."""
        return sum(hit.races for hit in self.hits)

    @property
    def unused(self) -> list[Suppression]:
        """Suppressions of a file that hid nothing."""
        return [hit.suppression for hit in self.hits if not hit.races]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "recording": str(self.recording),
            "races": [race.facts() for race in self.races],
            "suppressed": self.hidden,
            "suppressions": [hit.facts() for hit in self.hits],
            "shared_words": self.words,
            "accesses": self.accesses,
            "synchronising_bytes": self.synchronising,
            "unordered_regions": list(self.unordered),
            "accesses_left_out": self.left_out,
            "truncated": self.truncated,
            "missing_edges": list(self.missing_edges),
        }
