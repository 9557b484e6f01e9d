"""The turns of the replayer in Figure 3 of the Stride paper, one by one: on the accesses of Figure 2, with
the log of section II, thread 2 first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from linkage_factory import MEMORY, Frames, guest

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, READ, WRITE
from emu.native.semaphores import post, wait
from recorder.evidence.linkage.codec import RUNS
from recorder.evidence.linkage.collector import LinkageCollector
from solver.evidence.linkage.log import linkage_log
from solver.evidence.linkage.replay.group import Threads
from solver.evidence.linkage.replay.memory import new_memory
from solver.evidence.linkage.replay.stream import COMPARED, LINKED, Replay, do_rows, new_replay
from solver.evidence.linkage.replay.turns import (
    FAILED,
    ON_TURN,
    OVER,
    READY,
    SLOT,
    STATUS,
    SWITCHES,
    VERSION,
    WAITING,
    WAITS,
    new_turns,
)

X, Y = 0x1000, 0x1040
#: The figure's scheduler goes around from thread 2 on: T2, T3, T4, T1. Our streams are numbered so.
THREADS = ("T2", "T3", "T4", "T1")
#: Statement -> (thread, kind, place, what it writes or read), as the paper numbers them.
STATEMENTS = {
    "s1": ("T1", WRITE, Y, 1), "s2": ("T1", WRITE, X, 1), "s3": ("T1", WRITE, X, 2),
    "s4": ("T2", WRITE, Y, 2), "s5": ("T2", WRITE, Y, 3),
    "s6": ("T3", READ, Y, 3), "s7": ("T3", READ, X, 2),
    "s8": ("T4", READ, X, 1), "s9": ("T4", READ, Y, 2),
}  # fmt: skip
#: The run of Figure 2, turn by turn: s5 comes between s9 and the look at its version.
RAN = (("s1", "s2"), ("s8",), ("s4",), ("s9",), ("s5",), ("s3",), ("s6", "s7"))

#: Figure 3: who is on its turn, and what becomes of it: `done`, or the version for which it is suspended.
FIGURE_3 = (
    ("T2", "s4", "waits for 1 of y"),
    ("T3", "s6", "waits for 3 of y"),
    ("T4", "s8", "waits for 1 of x"),
    ("T1", "s1", "done"),
    ("T2", "s4", "done"),
    ("T1", "s2", "done"),
    ("T2", "s5", "done"),
    ("T3", "s6", "done"),
    ("T4", "s8", "done"),
    ("T1", "s3", "done"),
    ("T3", "s7", "done"),
    ("T4", "s9", "done"),
)
#: Ours hands a turn on only where it cannot go on: the same statements wait first, for the same versions.
OURS = (
    *FIGURE_3[:4],
    ("T1", "s2", "done"),
    ("T1", "s3", "done"),
    ("T2", "s4", "done"),
    ("T2", "s5", "done"),
    ("T3", "s6", "done"),
    ("T3", "s7", "done"),
    ("T4", "s8", "done"),
    ("T4", "s9", "done"),
)


@njit
def _hand_on(turns, made, stream):  # type: ignore[no-untyped-def]
    """After a statement: the next thread's turn, as the figure's scheduler has it."""
    n = turns.streams.shape[0]
    for k in range(1, n):
        other = (stream + k) % n
        row = turns.streams[other]
        if row[STATUS] == READY or (row[STATUS] == WAITING and made[row[SLOT]] >= row[VERSION]):
            turns.streams[stream, STATUS] = READY
            turns.state[SWITCHES] += 1
            row[STATUS] = ON_TURN
            post(turns.semaphores, other)
            return True
    return False


@njit(nogil=True)
def _await(turns, stream):  # type: ignore[no-untyped-def]
    wait(turns.semaphores, stream)


@dataclass
class Watched:
    """A replay of the figure's threads. told: what each turn came to."""

    replay: Replay
    each_statement: bool
    told: list[tuple[str, str, str]] = field(default_factory=list)

    def run(self, stream: int, names: list[str], rows: Any) -> None:
        """What a thread does on its turns; only one is on its turn at a time."""
        own, turns = np.zeros(MEMORY, np.uint8), self.replay.turns
        for k, name in enumerate(names):
            tried = len(self.told)
            self.told.append((THREADS[stream], name, "waits"))
            assert do_rows(self.replay, stream, rows[k : k + 1], own)
            if len(self.told) == tried + 1:
                self.told.pop()
            else:
                row = turns.streams[stream]
                of = "y" if STATEMENTS[name][2] == Y else "x"
                self.told[tried] = (THREADS[stream], name, f"waits for {row[VERSION]} of {of}")
            self.told.append((THREADS[stream], name, "done"))
            if self.each_statement and _hand_on(turns, self.replay.memory.made, stream):
                _await(turns, stream)


def rows_of(names: tuple[str, ...] | list[str], seen: dict[str, int]) -> Any:
    """Statements of one thread as events. seen: how many each thread has made so far; counted on."""
    rows = np.zeros(len(names), EVENT)
    for row, name in zip(rows, names, strict=True):
        thread, kind, place, value = STATEMENTS[name]
        row["seq"] = row["count"] = seen[thread]
        row["core"], row["kind"], row["addr"], row["size"] = THREADS.index(thread), kind, place, 8
        row["old"] = row["new"] = value
        seen[thread] += 1
    return rows


def replayed(*, each_statement: bool) -> Watched:
    """Record the run, and replay it."""
    n, frames, seen = len(THREADS) + 1, Frames(), dict.fromkeys(THREADS, 0)
    collector = LinkageCollector(guest(len(THREADS)), frames, "word", RUNS)
    for names in RAN:
        collector.take(THREADS.index(STATEMENTS[names[0]][0]), rows_of(names, seen))
    collector.finish()
    log = linkage_log(frames.items(n), n, "evidence", with_values=True)
    turns, semaphores = new_turns(n)
    watched = Watched(new_replay(log, new_memory(log, np.zeros(MEMORY, np.uint8)), turns), each_statement)
    threads = Threads(watched.replay)
    for stream, thread in enumerate(THREADS):
        names = [name for name in STATEMENTS if STATEMENTS[name][0] == thread]
        rows = rows_of(names, dict.fromkeys(THREADS, 0))
        threads.add(
            stream,
            lambda stream=stream, names=names, rows=rows: watched.run(stream, names, rows),  # type: ignore[misc]
        )
    threads.add(n - 1, lambda: None)
    threads.run()
    assert len(semaphores)
    return watched


@pytest.mark.parametrize(("each_statement", "expected"), [(True, FIGURE_3), (False, OURS)])
def test_the_turns_are_the_figures(each_statement: bool, expected: tuple[tuple[str, str, str], ...]) -> None:
    watched = replayed(each_statement=each_statement)
    assert tuple(watched.told) == expected
    turns = watched.replay.turns
    assert turns.state[FAILED] == 0
    assert (turns.streams[:, STATUS] == OVER).all()
    # Each of the three that begin too early waits once, and nobody else.
    assert turns.streams[:, WAITS].tolist() == [1, 1, 1, 0, 0]
    # Four reads are found by their values; r9 alone has another version between: 2, not 3.
    assert watched.replay.own[:, LINKED].tolist() == [0, 2, 2, 0, 0]
    assert watched.replay.own[:, COMPARED].tolist() == [0, 2, 3, 0, 0]
