"""What system calls put in order, on calls made up for it."""

from pathlib import Path

import numpy as np
import pytest

from corebraid.study.races import steps
from corebraid.study.races.calls import Call
from corebraid.study.races.spinning import find_waits
from corebraid.study.races.steps import AgentFacts, LinuxSteps, Step
from emu.bus.sync_points import ENTER, LEAVE, SYNC_POINT
from recorder.files.reader import Recording

PAIR = 0x5000
_WAKE, _WAIT, _PRIVATE = 1, 0, 128


def steps_of(
    monkeypatch: pytest.MonkeyPatch, calls: list[Call], facts: AgentFacts | None = None
) -> list[Step]:
    """Each call has a sync point of its own, by which it enters and leaves."""
    points = np.zeros(len(calls), SYNC_POINT)
    points["way"], points["who"] = ENTER | LEAVE, [call.thread for call in calls]
    points["count"] = np.arange(1, len(calls) + 1)
    known = facts or AgentFacts({}, [], [])
    monkeypatch.setattr(steps, "agent_facts", lambda *_: known)
    found = LinuxSteps(Recording(Path("none"), None), points, calls).steps()  # type: ignore[arg-type]
    return [step for step in found if step.thing[0] != "start"]  # type: ignore[index]


def call(point: int, thread: int, name: str, *asked: int, result: int | None = 0) -> Call:
    return Call(point, thread, name, (*asked, *(0,) * (6 - len(asked))), result)


def pairs(found: list[Step]) -> set[tuple[int, int]]:
    """(thread, other) of which the first releases what the other acquires later."""
    return {
        (a.who, b.who)
        for a in found for b in found
        if a.releases and not b.releases and a.thing == b.thing and a.point < b.point and a.who != b.who
    }  # fmt: skip


def test_pipes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = AgentFacts({(0, PAIR): 3, (0, PAIR + 4): 4, (1, PAIR): 5, (1, PAIR + 4): 6}, [], [])
    made = [call(0, 1, "pipe2", PAIR), call(1, 1, "pipe", PAIR)]
    right = [*made, call(2, 1, "write", 4, result=1), call(3, 2, "read", 3, result=1)]
    assert pairs(steps_of(monkeypatch, right, facts)) == {(1, 2)}
    wrong = [*right[:3], call(3, 2, "read", 5, result=1)]
    assert pairs(steps_of(monkeypatch, wrong, facts)) == set()
    # What a descriptor was says nothing once it is closed; a duplicate is the same.
    closed = [*made, call(2, 2, "close", 3), call(3, 1, "write", 4), call(4, 2, "read", 3)]
    assert pairs(steps_of(monkeypatch, closed, facts)) == set()
    again = [*made, call(2, 1, "dup", 4, result=9), call(3, 1, "write", 9), call(4, 2, "read", 3)]
    assert pairs(steps_of(monkeypatch, again, facts)) == {(1, 2)}
    assert pairs(steps_of(monkeypatch, [*right[:3], call(3, 2, "poll")], facts)) == {(1, 2)}


def test_files_and_streams_put_nothing_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps_of(monkeypatch, [call(0, 1, "write", 1), call(1, 2, "read", 0)]) == []


def test_futexes(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, wake = call(0, 2, "futex", 0x100, _WAIT | _PRIVATE), call(0, 1, "futex", 0x100, _WAKE, result=1)
    assert pairs(steps_of(monkeypatch, [wake, call(1, 2, "futex", 0x100, _WAIT)])) == {(1, 2)}
    assert pairs(steps_of(monkeypatch, [wake, call(1, 2, "futex", 0x104, _WAIT)])) == set()
    nobody = call(0, 1, "futex", 0x100, _WAKE, result=0)
    assert pairs(steps_of(monkeypatch, [nobody, call(1, 2, "futex", 0x100, _WAIT)])) == set()
    assert steps_of(monkeypatch, [wait])[0].thing == ("futex", 0x100)


def test_memory_that_is_mapped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pairs(steps_of(monkeypatch, [call(0, 1, "munmap"), call(1, 2, "mmap")])) == {(1, 2)}


def test_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = AgentFacts({}, [1], [])
    sent = [call(0, 1, "tgkill", 1000, 2, 10), call(1, 2, "read", 0)]
    assert pairs(steps_of(monkeypatch, sent, facts)) == {(1, 2)}
    assert pairs(steps_of(monkeypatch, [call(0, 1, "tgkill", 1000, 3, 10), sent[1]], facts)) == set()
    assert pairs(steps_of(monkeypatch, [call(0, 1, "kill", 1000, 10), sent[1]], facts)) == {(1, 2)}


@pytest.mark.parametrize(
    ("values", "stores", "waits"),
    [
        ([0, 0, 0, 1], (), True),
        ([0, 0, 1], (), False),
        ([0, 0, 0, 0], (), False),
        # Who writes in between does something else.
        ([0, 0, 0, 1], (2,), False),
    ],
)
def test_waiting(values: list[int], stores: tuple[int, ...], waits: bool) -> None:
    key, value, reads = [], [], []
    for n, one in enumerate(values):
        if n in stores:
            key.append(1), value.append(0), reads.append(False)
        key.append(0), value.append(one), reads.append(True)
    found = np.zeros(2, np.bool_)
    who = np.zeros(len(key), np.int64)
    for kernel in (find_waits, find_waits.py_func):
        found[:] = False
        kernel(np.array(key), who, np.array(value, np.uint64), np.array(reads), 3, found)
        assert found[0] == waits
