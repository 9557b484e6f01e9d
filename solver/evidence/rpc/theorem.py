"""Theorem 8 of Fagot and Chassin de Kergommeaux, held against two executions.

"For X' to be equivalent to X, it is sufficient to map all requests of X' using M", if the assumptions of 4.1
hold. Where all requests were mapped so and some message differs, the proof says who broke an assumption: of
the messages of X' without one like it in X those that come first by the clocks (`clocks.py`) were sent by
processes that had been told nothing else than in X. Whether they had is looked at here, not taken from the
proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.evidence.rpc.clocks import Message, Walk, walk_of
from solver.evidence.rpc.equivalence import Execution, Process, Rows, process_of, show_process

_NOTHING = "no such message"


@dataclass(frozen=True)
class Smallest:
    """A message that only one execution has, none of these before it. told_the_same: its entry point had been
    handed the same requests, and the process the same results and answers to tests."""

    process: Process
    number: int
    expected: str
    found: str
    told_the_same: bool

    def __str__(self) -> str:
        return f"emission {self.number} of process {show_process(self.process)}"


@dataclass(frozen=True)
class Theorem:
    """mapped: requests of the second execution that were served by the process that served them in the first;
    otherwise: those that were not. tests_otherwise: answers to tests that the first does not have there.
    different: messages that only one has. smallest: of these the first ones by the clocks."""

    mapped: int
    otherwise: int = 0
    tests_otherwise: int = 0
    different: int = 0
    smallest: tuple[Smallest, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether its premise holds: all requests are mapped as in the first execution, tests answered so."""
        return not self.otherwise and not self.tests_otherwise

    @property
    def holds(self) -> bool:
        """Whether these executions do not refute it: if not, the program breaks an assumption."""
        return not self.applies or not self.different

    @property
    def breakers(self) -> tuple[Smallest, ...]:
        """Messages that show, each alone, that their process goes by something that it was not told."""
        return tuple(one for one in self.smallest if one.told_the_same)


def theorem_of(first: Rows, first_exit: int | None, second: Rows, second_exit: int | None) -> Theorem:
    """Hold the theorem against two executions, each as what happened (MAIL_EVENT[n]) and how it ended."""
    x, y = walk_of(first, first_exit), walk_of(second, second_exit)
    mapped, otherwise = _mapping(x.execution, y.execution)
    only, side, other = _without(y, x), y, x
    if not only:
        only, side, other = _without(x, y), x, y
    smallest = tuple(_told(side, other, message, side is y) for message in side.smallest(only))
    return Theorem(mapped, otherwise, _tests(x.execution, y.execution), len(only), smallest)


def _mapping(x: Execution, y: Execution) -> tuple[int, int]:
    """Receipts of y by the same and by other processes. One that x may not have come to is neither."""
    mapped = otherwise = 0
    for place, history in y.receipts.items():
        known = x.receipts.get(place, [])
        same = sum(a == b for a, b in zip(known, history, strict=False))
        mapped += same
        otherwise += min(len(known), len(history)) - same
        if x.exit_code is not None:
            otherwise += max(0, len(history) - len(known))
    return mapped, otherwise


def _tests(x: Execution, y: Execution) -> int:
    """Answers to tests in y that x does not have there."""
    wrong = 0
    for identifier, answers in y.tests.items():
        known = x.tests.get(identifier, [])
        wrong += sum(a != b for a, b in zip(known, answers, strict=False))
        if x.ended(process_of(identifier)):
            wrong += max(0, len(answers) - len(known))
    return wrong


def _without(a: Walk, b: Walk) -> list[Message]:
    """Messages of a that b has none like, where b is known to have sent all that it would."""
    found: list[Message] = []
    for process, sent in a.execution.emissions.items():
        other = b.execution.emissions.get(process, [])
        ended = b.execution.ended(process)
        for number, emission in enumerate(sent):
            if emission != other[number] if number < len(other) else ended:
                found.append((process, number))
    return found


def told_the_same(a: Walk, b: Walk, message: Message) -> bool:
    """Whether all that the message's process had been told before it in a, it is told in b too: requests that
    its entry point was handed up to its own, then results and answers to tests."""
    process, _ = message
    place, thread = process[:2], process[2]
    if a.started[place][: thread + 1] != b.started[place][: thread + 1]:
        return False
    return set(a.told[process][: a.heard[message]]) <= set(b.told[process])


def _told(side: Walk, other: Walk, message: Message, is_second: bool) -> Smallest:
    process, number = message
    mine = str(side.execution.emissions[process][number])
    sent = other.execution.emissions.get(process, [])
    theirs = str(sent[number]) if number < len(sent) else _NOTHING
    expected, found = (theirs, mine) if is_second else (mine, theirs)
    return Smallest(process, number, expected, found, told_the_same(side, other, message))
