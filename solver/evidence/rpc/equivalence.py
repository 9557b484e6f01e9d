"""Definition 4 of Fagot and Chassin de Kergommeaux: two executions are equivalent if every process emits the
same requests in the same order.

An execution is also held to its receipt histories and to its tests, which the definition leaves out: with
equal emissions two entry points that send nothing could still have served their callers in another order.
Results count as emissions, and what messages carry is compared with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emu.devices.mail_state import POSTED, RECEIVED, REPLY, TESTED
from recorder.evidence.rpc.receipts import Receipts, describe_request

Rows = npt.NDArray[np.void]
#: (virtual processor, entry point, thread).
Process = tuple[int, int, int]
Place = tuple[int, int]
#: Of the process that the program starts with.
FIRST: Process = (0, 0, 0)
_FOREIGN = 0xFFFFFF


@dataclass(frozen=True)
class Emission:
    """A message that a process sent: to which core and entry point, a request or a result, the request's
    identifier, and its words."""

    core: int
    entry: int
    is_reply: bool
    id: int
    words: tuple[int, ...]

    def __str__(self) -> str:
        words = ", ".join(f"{word:#x}" for word in self.words)
        if self.is_reply:
            return f"the result of request {describe_request(self.id)}: [{words}]"
        where = f"entry point {self.entry} of virtual processor {self.core}"
        return f"request {self.id & 0xFFFFFF} to {where}: [{words}]"


def process_of(identifier: int) -> Process:
    """The process that made a request."""
    return identifier >> 56, identifier >> 48 & 0xFF, identifier >> 24 & 0xFFFFFF


def show_process(process: Process) -> str:
    """A process as the paper writes it."""
    return "<{},{},{}>".format(*process)


@dataclass
class Execution:
    """The triple of section 4.1 and the tests. receipts: H, by entry point. emissions: E, by process. served:
    M, request -> process. tests: request -> its answers in order. exit_code: None if the guest did not power
    the machine off."""

    receipts: dict[Place, list[int]] = field(default_factory=dict)
    emissions: dict[Process, list[Emission]] = field(default_factory=dict)
    served: dict[int, Process] = field(default_factory=dict)
    tests: dict[int, list[int]] = field(default_factory=dict)
    exit_code: int | None = None

    @property
    def requests(self) -> int:
        """Requests emitted."""
        return sum(not e.is_reply for sent in self.emissions.values() for e in sent)

    def ended(self, process: Process) -> bool:
        """Whether the process is known to have sent all that it would."""
        if process == FIRST:
            return self.exit_code is not None
        sent = self.emissions.get(process, [])
        return bool(sent) and sent[-1].is_reply

    def receive(self, place: Place, identifier: int) -> int:
        """A receipt; returns its number at that entry point."""
        history = self.receipts.setdefault(place, [])
        history.append(identifier)
        self.served[identifier] = (*place, len(history) - 1)
        return len(history) - 1

    def emit(self, vp: int, emission: Emission) -> tuple[Process, int]:
        """An emission of virtual processor `vp`; returns whose it was, and its number there."""
        process = process_of(emission.id)
        if emission.is_reply:
            process = self.served.get(emission.id, (vp, emission.entry, _FOREIGN))
        sent = self.emissions.setdefault(process, [])
        sent.append(emission)
        return process, len(sent) - 1

    def test(self, identifier: int, answer: int) -> int:
        """A test's answer; returns its number among those of this request."""
        answers = self.tests.setdefault(identifier, [])
        answers.append(answer)
        return len(answers) - 1


def _place(row: np.void) -> Place:
    return int(row["core"]), int(row["head"]) >> 8 & 0xFF


def emission_of(row: np.void) -> Emission:
    """The message of a POSTED row."""
    head = int(row["head"])
    words = tuple(int(row[name]) for name in ("w0", "w1", "w2", "w3")[: head >> 20 & 15])
    return Emission(head & 0xFF, head >> 8 & 0xFF, head >> 16 & 15 == REPLY, int(row["id"]), words)


def execution_of(rows: Rows, exit_code: int | None) -> Execution:
    """An execution from what happened, MAIL_EVENT[n]; only the order within each core counts, since a core
    answers the requests that it received itself."""
    execution = Execution(exit_code=exit_code)
    for row in rows:
        if row["what"] == RECEIVED:
            execution.receive(_place(row), int(row["id"]))
        elif row["what"] == POSTED:
            execution.emit(int(row["core"]), emission_of(row))
        elif row["what"] == TESTED:
            execution.test(int(row["id"]), int(row["head"]))
    return execution


@dataclass(frozen=True)
class Difference:
    """What an execution did otherwise. kind: "receipt", "emission", "test", "end", "evidence". process:
    whose. request: the identifier of the request concerned, if there is one."""

    kind: str
    process: Process
    request: int | None
    what: str
    expected: str
    found: str


@dataclass(frozen=True)
class Comparison:
    """first: the first difference in the order in which the second execution went, None: they are equivalent.
    other_histories: entry points whose receipt histories differ. cut: processes that the end of one
    execution cut off, equal as far as both go."""

    first: Difference | None
    other_histories: int
    cut: int


def _other_receipt(recorded: Execution, place: Place, number: int, found: int) -> Difference | None:
    history = recorded.receipts.get(place, [])
    if number < len(history) and history[number] == found:
        return None
    if number >= len(history) and recorded.exit_code is None:
        return None
    expected = (
        f"request {describe_request(history[number])}" if number < len(history) else "no further request"
    )
    what = f"receipt {number} of entry point {place[1]} of virtual processor {place[0]}"
    return Difference(
        "receipt", (*place, number), found, what, expected, f"request {describe_request(found)}"
    )


def _other_emission(recorded: Execution, process: Process, number: int, found: Emission) -> Difference | None:
    sent = recorded.emissions.get(process, [])
    if number < len(sent) and sent[number] == found:
        return None
    if number >= len(sent) and not recorded.ended(process):
        return None
    expected = str(sent[number]) if number < len(sent) else "no further emission"
    what = f"emission {number} of process {show_process(process)}"
    return Difference("emission", process, found.id, what, expected, str(found))


def _other_test(recorded: Execution, identifier: int, number: int, found: int) -> Difference | None:
    answers = recorded.tests.get(identifier, [])
    process = process_of(identifier)
    if number < len(answers) and answers[number] == found:
        return None
    if number >= len(answers) and not recorded.ended(process):
        return None
    expected = f"answer {answers[number]}" if number < len(answers) else "no further test"
    what = f"test {number} of request {describe_request(identifier)} by process {show_process(process)}"
    return Difference("test", process, identifier, what, expected, f"answer {found}")


def _first_otherwise(recorded: Execution, rows: Rows) -> tuple[Difference | None, Execution]:
    """Follow the second execution (MAIL_EVENT[n], in the order in which it went) along the first."""
    repeated = Execution()
    first: Difference | None = None
    for row in rows:
        found: Difference | None = None
        if row["what"] == RECEIVED:
            place, identifier = _place(row), int(row["id"])
            found = _other_receipt(recorded, place, repeated.receive(place, identifier), identifier)
        elif row["what"] == POSTED:
            emission = emission_of(row)
            found = _other_emission(recorded, *repeated.emit(int(row["core"]), emission), emission)
        elif row["what"] == TESTED:
            identifier, answer = int(row["id"]), int(row["head"])
            found = _other_test(recorded, identifier, repeated.test(identifier, answer), answer)
        first = first or found
    return first, repeated


def _missing(recorded: Execution, repeated: Execution) -> Difference | None:
    """What a process that came to its end left out, or that the whole execution did."""
    for process, sent in recorded.emissions.items():
        number = len(repeated.emissions.get(process, []))
        if number < len(sent) and repeated.ended(process):
            what = f"emission {number} of process {show_process(process)}"
            return Difference(
                "emission", process, sent[number].id, what, str(sent[number]), "the process ended before"
            )
    for identifier, answers in recorded.tests.items():
        number, process = len(repeated.tests.get(identifier, [])), process_of(identifier)
        if number < len(answers) and repeated.ended(process):
            what = (
                f"test {number} of request {describe_request(identifier)} by process {show_process(process)}"
            )
            return Difference(
                "test", process, identifier, what, f"answer {answers[number]}", "the process ended before"
            )
    if recorded.exit_code is not None and repeated.exit_code != recorded.exit_code:
        found = "no end" if repeated.exit_code is None else f"exit code {repeated.exit_code}"
        return Difference(
            "end", FIRST, None, "the end of the execution", f"exit code {recorded.exit_code}", found
        )
    return None


def _between(place: Place, real: list[int], told: list[int], whole: bool) -> Difference | None:
    """Where the evidence of an entry point's history departs from the real one."""
    shared = min(len(real), len(told))
    number = next((k for k in range(shared) if real[k] != told[k]), shared)
    if number == shared and (len(real) == len(told) or not whole):
        return None
    expected, found = (
        f"request {describe_request(history[number])}" if number < len(history) else "no further request"
        for history in (real, told)
    )
    what = f"receipt {number} of entry point {place[1]} of virtual processor {place[0]} in the evidence"
    request = told[number] if number < len(told) else None
    return Difference("evidence", (*place, number), request, what, expected, found)


def evidence_difference(receipts: Receipts, recorded: Execution, whole: bool) -> Difference | None:
    """Where the evidence says otherwise than the isolated replays, in what a re-execution need not show:
    what it knows too much or too little of. whole: the recording is complete, so that both know the same."""
    for place in sorted(receipts.histories.keys() | recorded.receipts.keys()):
        told = receipts.histories.get(place, np.zeros(0, np.uint64)).tolist()
        found = _between(place, recorded.receipts.get(place, []), told, whole)
        if found is not None:
            return found
    for number in sorted(receipts.tests.keys() | recorded.tests.keys()) if whole else ():
        answers = recorded.tests.get(number, [])
        real = (answers.index(1), True) if 1 in answers else (len(answers), False)
        said = receipts.tests.get(number, (0, False))
        if said != real:
            what = f"the tests of request {describe_request(number)} in the evidence"
            expected, wrong = (f"{noes} times no{', then yes' if yes else ''}" for noes, yes in (real, said))
            return Difference("evidence", process_of(number), number, what, expected, wrong)
    return None


def _differ(a: Iterable[int], b: Iterable[int]) -> bool:
    """Whether two histories differ as far as both go."""
    return any(x != y for x, y in zip(a, b, strict=False))


def compare(recorded: Execution, rows: Rows, exit_code: int | None) -> Comparison:
    """Compare an execution with a second one, given as what happened in it in that order, MAIL_EVENT[n].

    exit_code: how the second one ended, None if the guest did not power the machine off.
    """
    first, repeated = _first_otherwise(recorded, rows)
    repeated.exit_code = exit_code
    first = first or _missing(recorded, repeated)
    histories = sum(
        _differ(history, repeated.receipts.get(place, [])) for place, history in recorded.receipts.items()
    )
    cut = sum(
        len(recorded.emissions.get(process, [])) != len(repeated.emissions.get(process, []))
        for process in recorded.emissions.keys() | repeated.emissions.keys()
    )
    return Comparison(first, histories, cut if first is None else 0)
