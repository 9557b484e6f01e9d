"""Vector clocks of entry points (Fagot and Chassin de Kergommeaux, definitions 6 and 7), and what each
process had been told before each message that it sent.

Definition 6: an entry point counts the requests that it is handed in its own component; each message carries
the clock of the entry point whose process sent it; who takes a message takes the component-wise maximum, an
entry point just before it counts a request. A result counts as passed to the requesting process when its
virtual processor takes it.

Definition 7 orders messages by m <= n in every component. As printed that is no partial order: where process
p takes the result m of a call and then sends n, both may carry the same clock, so that each would come before
the other. `Walk.before` therefore has those of one clock in the order in which the walk comes to them, which
is one in which they can have happened: what a process was told is then always before what it sends.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emu.devices.mail_state import ANSWERED, POSTED, RECEIVED, TESTED
from solver.evidence.rpc.equivalence import (
    Emission,
    Execution,
    Place,
    Process,
    Rows,
    emission_of,
    process_of,
)

Clock = npt.NDArray[np.int64]
#: A message: the process that sent it, and its number among what that has sent.
Message = tuple[Process, int]
#: (True: the result of a request, False: the answer to a test, the request, how many of it came before, the
#: words or the answer).
Told = tuple[bool, int, int, tuple[int, ...]]


@dataclass
class Walk:
    """An execution's messages in an order in which they can have happened. execution: its H, E and M.

    places: entry points, the components of a clock. clock: of each message, int64 (n_places,). number: its
    place in the walk. started: of each entry point the requests that it was handed, (request, words). told:
    what each process was told after that, and heard: how much of it before each message.
    """

    places: dict[Place, int]
    execution: Execution
    clock: dict[Message, Clock] = field(default_factory=dict)
    number: dict[Message, int] = field(default_factory=dict)
    started: dict[Place, list[tuple[int, tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(list))
    told: dict[Process, list[Told]] = field(default_factory=lambda: defaultdict(list))
    heard: dict[Message, int] = field(default_factory=dict)

    def before(self, a: Message, b: Message) -> bool:
        """Whether a comes before b by definition 7, those of one clock as they come in the walk."""
        if not (self.clock[a] <= self.clock[b]).all():
            return False
        return self.number[a] < self.number[b] or bool((self.clock[a] < self.clock[b]).any())

    def smallest(self, messages: list[Message]) -> list[Message]:
        """Those of these messages before which there is none of them."""
        # Who comes before another has a smaller sum, or the same clock and a smaller number.
        rising = sorted(messages, key=lambda m: (int(self.clock[m].sum()), self.number[m]))
        found: list[Message] = []
        for message in rising:
            if not any(self.before(other, message) for other in found):
                found.append(message)
        return found


class _Walker:
    """Walks along the cores' rows, each core as far as what it takes has been sent."""

    def __init__(self, rows: Rows, exit_code: int | None) -> None:
        self._rows, self._at = rows, [deque[int]() for _ in range(int(rows["core"].max(initial=0)) + 1)]
        for k, core in enumerate(rows["core"].tolist()):
            self._at[core].append(k)
        sent = rows["what"] != TESTED
        made = {process_of(number)[:2] for number in rows["id"][sent].tolist()}
        handed = rows[rows["what"] == RECEIVED]
        entries = (handed["head"] >> np.uint64(8) & np.uint64(0xFF)).tolist()
        places = sorted(made | set(zip(handed["core"].tolist(), entries, strict=True)))
        self.walk = Walk({place: n for n, place in enumerate(places)}, Execution(exit_code=exit_code))
        self._clock: dict[Place, Clock] = defaultdict(lambda: np.zeros(len(places), np.int64))
        self._carried: dict[tuple[int, bool], deque[tuple[Clock, tuple[int, ...]]]] = defaultdict(deque)
        self._answers: dict[tuple[bool, int], int] = defaultdict(int)

    def run(self) -> Walk:
        """To the end. What takes a message that nobody is seen to send is told nothing by it."""
        while any(self._at):
            if not sum(self._go(rows) for rows in self._at):
                self._take(next(rows for rows in self._at if rows).popleft())
        return self.walk

    def _go(self, rows: deque[int]) -> bool:
        went = False
        while rows and self._ready(rows[0]):
            self._take(rows.popleft())
            went = True
        return went

    def _ready(self, k: int) -> bool:
        row = self._rows[k]
        if row["what"] not in (RECEIVED, ANSWERED):
            return True
        return bool(self._carried[int(row["id"]), bool(row["what"] == ANSWERED)])

    def _take(self, k: int) -> None:
        row, walk = self._rows[k], self.walk
        what, identifier = int(row["what"]), int(row["id"])
        if what == POSTED:
            self._post(int(row["core"]), emission_of(row))
        elif what == RECEIVED:
            place = int(row["core"]), int(row["head"]) >> 8 & 0xFF
            words = self._merge(place, identifier, False)
            self._clock[place][walk.places[place]] += 1
            walk.execution.receive(place, identifier)
            walk.started[place].append((identifier, words))
        elif what == ANSWERED:
            process = process_of(identifier)
            words = self._merge(process[:2], identifier, True)
            self._tell(process, True, identifier, words)
        elif what == TESTED:
            walk.execution.test(identifier, int(row["head"]))
            self._tell(process_of(identifier), False, identifier, (int(row["head"]),))

    def _tell(self, process: Process, is_reply: bool, identifier: int, words: tuple[int, ...]) -> None:
        number = self._answers[is_reply, identifier]
        self._answers[is_reply, identifier] += 1
        self.walk.told[process].append((is_reply, identifier, number, words))

    def _merge(self, place: Place, identifier: int, is_reply: bool) -> tuple[int, ...]:
        carried = self._carried[identifier, is_reply]
        if not carried:
            return ()
        clock, words = carried.popleft()
        np.maximum(self._clock[place], clock, out=self._clock[place])
        return words

    def _post(self, vp: int, emission: Emission) -> None:
        walk = self.walk
        message = walk.execution.emit(vp, emission)
        process, _ = message
        clock = self._clock[process[:2]].copy()
        walk.clock[message], walk.number[message] = clock, len(walk.number)
        walk.heard[message] = len(walk.told[process])
        self._carried[emission.id, emission.is_reply].append((clock, emission.words))


def walk_of(rows: Rows, exit_code: int | None) -> Walk:
    """Walk along what happened, MAIL_EVENT[n], of which only the order within each core counts. exit_code: as
    in `Execution`."""
    return _Walker(rows, exit_code).run()
