"""Vector clocks of entry points against reachability, and Theorem 8 against executions that keep to its
assumptions and such that do not."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE
from guest import CYCLES, Code, elf
from mailbox_code import put, receive, send

from emu.devices.mail_state import ANSWERED, MAIL_EVENT, POSTED, RECEIVED, REPLY, REQUEST
from emu.devices.mailbox import MAIL_ACCEPT
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.evidence.rpc.receipts import Receipts, read_receipts
from recorder.files.reader import Recording
from recorder.replay.mail_trace import recorded_mail
from solver.evidence.rpc.clocks import Message, Walk, walk_of
from solver.evidence.rpc.equivalence import FIRST, Place, emission_of, process_of
from solver.evidence.rpc.judge import Judgement, judge
from solver.evidence.rpc.replay import Conditions, Reexecution, reexecute
from solver.evidence.rpc.theorem import Theorem, theorem_of, told_the_same

PROGRAMS = ("rpc_divide", "rpc_iterate", "rpc_prolog", "rpc_queens", "rpc_slaves", "rpc_strassen")
Rows = np.ndarray[Any, Any]


class Recorded:
    """A recording on so many cores, and executions again."""

    def __init__(self, path: Path, program: Path, cores: int, **options: Any) -> None:
        chosen = RecordOptions(cores=cores, evidence=("rpc",), memory_bytes=8 << 20, **options)
        self.end = record(program, path, X86_64, chosen, lambda _: None).end
        self.recording = Recording.open(path)
        self.receipts, self.mail = read_receipts(self.recording), recorded_mail(self.recording)

    def free(self, conditions: Conditions) -> Reexecution:
        return reexecute(self.recording, conditions, None)

    def judged(self, conditions: Conditions, receipts: Receipts | None = None) -> Judgement:
        return judge(self.recording, self.mail, receipts or self.receipts, conditions)

    def theorem(self, run: Reexecution) -> Theorem:
        return theorem_of(self.mail.events, self.end.exit_code, run.events, run.exit_code)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """The programs on 4 cores."""
    folder = tmp_path_factory.mktemp("rpc")
    return {name: Recorded(folder / name, FIRMWARE / f"{name}.elf", 4, seed=104) for name in PROGRAMS}


# -- clocks against what reaches what ---------------------------------------------------------------------


class Reached:
    """An execution (MAIL_EVENT[n], any order of its cores) as a graph. place: of each row its entry point,
    None where it is of none. below: of each row the rows that reach it, itself too, as bits."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.place = rows, [self._place(row) for row in rows]
        self.message, self._came_from = self._messages()
        self.below: dict[int, int] = {}
        self._before: list[list[int]] = []
        latest: dict[Place, int] = {}
        for k, place in enumerate(self.place):
            self._before.append([latest[place]] if place in latest else [])
            if place is not None:
                latest[place] = k
            self._before[k] += [self._came_from[k]] if k in self._came_from else []
        for k in range(len(rows)):
            self._reach(k)

    def _place(self, row: np.void) -> Place | None:
        what, identifier = int(row["what"]), int(row["id"])
        if what == RECEIVED:
            return int(row["core"]), int(row["head"]) >> 8 & 255
        if what == POSTED and int(row["head"]) >> 16 & 15 == REPLY:
            return int(row["core"]), int(row["head"]) >> 8 & 255
        return process_of(identifier)[:2] if what in (POSTED, ANSWERED) else None

    def _messages(self) -> tuple[dict[tuple[int, bool], int], dict[int, int]]:
        posted = {
            (int(row["id"]), int(row["head"]) >> 16 & 15 == REPLY): k
            for k, row in enumerate(self.rows)
            if row["what"] == POSTED
        }
        took = {RECEIVED: False, ANSWERED: True}
        came = {
            k: posted[int(row["id"]), took[int(row["what"])]]
            for k, row in enumerate(self.rows)
            if int(row["what"]) in took
        }
        return posted, came

    def _reach(self, k: int) -> None:
        todo = [k]
        while todo:
            at = todo[-1]
            left = [before for before in self._before[at] if before not in self.below]
            todo += left
            if not left:
                self.below[todo.pop()] = 1 << at | self._union(self._before[at])

    def _union(self, rows: list[int]) -> int:
        bits = 0
        for k in rows:
            bits |= self.below[k]
        return bits

    def clock(self, k: int) -> dict[Place, int]:
        counted: dict[Place, int] = defaultdict(int)
        for j, row in enumerate(self.rows):
            place = self.place[j]
            if row["what"] == RECEIVED and place is not None and self.below[k] >> j & 1:
                counted[place] += 1
        return dict(counted)


def rows_of_messages(walk: Walk, reached: Reached) -> dict[Message, int]:
    sent = walk.execution.emissions
    return {(p, n): reached.message[sent[p][n].id, sent[p][n].is_reply] for p, n in walk.clock}


def executions(recorded: dict[str, Recorded]) -> Iterator[tuple[str, Rows]]:
    """As the isolated replays tell them, core after core, and as a re-execution went."""
    for name in ("rpc_queens", "rpc_iterate", "rpc_strassen"):
        made = recorded[name]
        yield f"{name}, recorded", made.mail.events
        yield f"{name}, again", made.free(Conditions(seed=3)).events


def test_clocks_count_the_requests_that_reach_a_message(recorded: dict[str, Recorded]) -> None:
    for what, rows in executions(recorded):
        walk, reached = walk_of(rows, 0), Reached(rows)
        assert len(walk.clock) == (rows["what"] == POSTED).sum()
        assert (rows["what"] == ANSWERED).any(), what
        for message, k in rows_of_messages(walk, reached).items():
            found = {place: int(walk.clock[message][i]) for place, i in walk.places.items()}
            expected = reached.clock(k)
            assert {place: n for place, n in found.items() if n} == expected, f"{what}: {message}"


def test_the_own_component_is_the_number_of_the_thread(recorded: dict[str, Recorded]) -> None:
    """Definition 6, 1: VC_i[i] = th, here counted from 0, when the process is started."""
    for _, rows in executions(recorded):
        walk = walk_of(rows, 0)
        for (process, number), clock in walk.clock.items():
            own = int(clock[walk.places[process[:2]]])
            assert own > process[2] or process == FIRST, (process, number)


def test_the_order_is_strict_and_holds_what_caused_a_message(recorded: dict[str, Recorded]) -> None:
    draw, same_clock = random.Random(8), 0
    for what, rows in executions(recorded):
        walk, reached = walk_of(rows, 0), Reached(rows)
        row = rows_of_messages(walk, reached)
        messages = draw.sample(sorted(row), min(70, len(row)))
        before = {(a, b) for a in messages for b in messages if walk.before(a, b)}
        for a, b in before:
            assert (b, a) not in before, f"{what}: {a}, {b}"
            assert all((a, c) in before for c in messages if (b, c) in before), f"{what}: {a}, {b}"
        for a in messages:
            for b in messages:
                if a != b and reached.below[row[b]] >> row[a] & 1:
                    assert (a, b) in before, f"{what}: {a} caused {b}"
                    same_clock += bool((walk.clock[a] == walk.clock[b]).all() and a[0] != b[0])
    # Definition 7 as printed has each of two such before the other.
    assert same_clock > 5


def test_smallest_are_those_before_which_there_is_none(recorded: dict[str, Recorded]) -> None:
    draw = random.Random(9)
    for _, rows in executions(recorded):
        walk = walk_of(rows, 0)
        for _ in range(30):
            some = draw.sample(sorted(walk.clock), draw.randint(1, 40))
            plain = [m for m in some if not any(walk.before(other, m) for other in some)]
            assert sorted(walk.smallest(some)) == sorted(plain)


# -- Theorem 8 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_holds_of_programs_that_keep_to_its_assumptions(
    recorded: dict[str, Recorded], program: str
) -> None:
    """Under control its premise and its conclusion; free, that it is not refuted, and what its proof goes
    by: a process that is told the same sends the same."""
    made, told, elsewhere = recorded[program], 0, 0
    for seed in range(3):
        judged = made.judged(Conditions(seed=seed, schedule="pct:3"))
        assert (judged.theorem.applies, judged.theorem.holds) == (True, True)
        assert judged.theorem.mapped == made.receipts.requests
        run = made.free(Conditions(seed=seed))
        theorem = made.theorem(run)
        assert theorem.holds
        assert not theorem.breakers
        elsewhere += bool(theorem.otherwise and theorem.different)
        x, y = walk_of(made.mail.events, 0), walk_of(run.events, run.exit_code)
        for message in y.clock:
            if told_the_same(y, x, message):
                told += 1
                process, number = message
                sent = x.execution.emissions[process]
                assert sent[number] == y.execution.emissions[process][number], message
    assert told
    assert elsewhere


def test_what_processes_are_told_is_needed(recorded: dict[str, Recorded]) -> None:
    """Without looking at it the farm would seem to break an assumption."""
    made = recorded["rpc_queens"]
    run = made.free(Conditions(seed=0))
    x, y = walk_of(made.mail.events, 0), walk_of(run.events, run.exit_code)
    for walk in (x, y):
        walk.told.clear()
        walk.started.clear()
    others = [
        message
        for message in y.clock
        if told_the_same(y, x, message)
        and x.execution.emissions.get(message[0], [])[message[1] : message[1] + 1]
        != [y.execution.emissions[message[0]][message[1]]]
    ]
    assert others


def test_a_swapped_receipt_is_no_broken_assumption(recorded: dict[str, Recorded]) -> None:
    made = recorded["rpc_queens"]
    histories = {place: history.copy() for place, history in made.receipts.histories.items()}
    histories[0, 2][[3, 4]] = histories[0, 2][[4, 3]]
    theorem = made.judged(Conditions(seed=1), Receipts(histories, made.receipts.tests)).theorem
    assert theorem.otherwise
    assert theorem.different
    assert not theorem.applies
    assert not theorem.breakers


def test_who_looks_at_the_clock_is_named(tmp_path: Path) -> None:
    """The server's second answer is the time; the third request carries it, and so differs too."""
    code = Code().split("asker", "server")
    code.label("asker")
    for number in range(3):
        send(code, 1, 1, REQUEST, number, 7 if number < 2 else "rbx")
        receive(code, f"answer{number}")
    code.power_off(0).label("server").mov("r12", 0)
    put(code, MAIL_ACCEPT, 1 << 1)
    receive(code, "request").mov("rbx", 5).compare("r12", 1).jump_if("nz", "known").ask(CYCLES, "rbx")
    code.label("known").add("r12", 1)
    code.raw("48 89 ca")  # mov rdx, rcx: the request's identifier
    put(code, np.uint64(0x100), "rdx")
    put(code, np.uint64(0x108), "rbx")
    put(code, np.uint64(0x128), 0 | 1 << 8 | REPLY << 16 | 1 << 20)
    code.jump("request")
    made = Recorded(tmp_path / "rec", elf(tmp_path / "guest.elf", code), 2, seed=1)
    judged = made.judged(Conditions(seed=5, latency=77))
    theorem = judged.theorem
    assert (theorem.applies, theorem.holds) == (True, False)
    assert theorem.mapped == 3
    # The answer that is the time, and the request that carries it on.
    assert theorem.different == 2
    assert [(one.process, one.number) for one in theorem.breakers] == [((1, 1, 1), 0)]
    assert theorem.smallest == theorem.breakers


def test_a_process_that_falls_silent_is_found_from_the_other_side() -> None:
    """What only the first execution has, where the second one's process came to its end."""
    rows = [
        (POSTED, 0, 1 | 1 << 8 | REQUEST << 16 | 1 << 20, 0, 9, 0, 0, 0),
        (RECEIVED, 1, 1 << 8 | REQUEST << 16 | 1 << 20, 0, 9, 0, 0, 0),
        (POSTED, 1, 0 | 2 << 8 | REQUEST << 16, 1 << 56 | 1 << 48, 0, 0, 0, 0),
        (POSTED, 1, 0 | 1 << 8 | REPLY << 16, 0, 0, 0, 0, 0),
    ]
    first = np.array(rows, MAIL_EVENT)
    second = first[[0, 1, 3]]
    theorem = theorem_of(first, 0, second, 0)
    assert emission_of(first[2]).is_reply is False
    assert (theorem.applies, theorem.holds) == (True, False)
    assert [(one.process, one.number) for one in theorem.smallest] == [((1, 1, 0), 0)]
    assert theorem_of(first, 0, first, 0) == Theorem(1)
