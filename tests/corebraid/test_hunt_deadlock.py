"""Who waits for whom, on tasks and memory made up for it."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from corebraid.names.symbols import Symbol, Symbols
from corebraid.study.deadlocks import waits_of, with_names
from emu.linux.ground.wait import Wait
from emu.linux.tasks.deadlock import waits
from emu.linux.tasks.waiting import Awaited, Waiting, cycle, lines, stuck, tell, works_for_outside
from recorder.files.end import End

MUTEX_A, MUTEX_B, COND, STREAM, OTHER = 0x1000, 0x1100, 0x1200, 0x1300, 0x1400
POINTERS = {1000: 0x7000, 1001: 0x7100, 1002: 0x7200}


def task(tid: int, address: int | None, what: str = "a futex", clear: int = 0, name: str = "guest") -> Any:
    isa = SimpleNamespace(read=lambda registers, name: POINTERS[registers])
    process = SimpleNamespace(
        isa=isa,
        descriptors=SimpleNamespace(items=list),
        abi=SimpleNamespace(thread_pointer="fs_base", calls={}),
    )
    wait = Wait((), None, what, address)
    return SimpleNamespace(
        tid=tid, name=name, wait=wait, clear_child_tid=clear, process=process, registers=tid, call_number=-1
    )


class Memory:
    def __init__(self) -> None:
        self.bytes = bytearray(0x8000)

    def __call__(self, address: int, size: int) -> int:
        return int.from_bytes(self.bytes[address : address + size], "little")

    def mutex(self, address: int, owner: int, word: int = 2, kind: int = 0) -> None:
        struct.pack_into("<IIIII", self.bytes, address, word, 0, owner, 1, kind)

    def condition(self, address: int, waiting: int) -> None:
        struct.pack_into("<I", self.bytes, address + 36, waiting << 3)


def test_two_mutexes_in_a_cycle_and_a_join() -> None:
    memory = Memory()
    memory.mutex(MUTEX_A, 1001)
    memory.mutex(MUTEX_B, 1002)
    tasks = [task(1002, MUTEX_A, clear=0x2008), task(1001, MUTEX_B, clear=0x2004), task(1000, 0x2004)]
    found = waits(tasks, memory)
    assert [one.owner for one in found] == [1001, 1002, 1001]
    assert tell(found) == (
        "thread 1000 (guest) waits for thread 1001 to end; "
        "thread 1001 (guest) waits for the mutex at 0x1100, held by thread 1002; "
        "thread 1002 (guest) waits for the mutex at 0x1000, held by thread 1001; "
        "a cycle: 1001 -> 1002 -> 1001"
    )


def test_a_mutex_of_a_thread_that_is_gone_has_no_owner() -> None:
    memory = Memory()
    memory.mutex(MUTEX_A, 1077)
    (one,) = waits([task(1000, MUTEX_A)], memory)
    assert (one.what, one.value, one.owner) == (Awaited.FUTEX, 2, None)
    assert one.text() == "thread 1000 (guest) waits for the futex at 0x1000 (value 2)"


def test_a_lock_of_a_thread_that_has_ended() -> None:
    memory = Memory()
    memory.mutex(MUTEX_A, 1001)
    struct.pack_into("<I", memory.bytes, MUTEX_B, 2)
    struct.pack_into("<I", memory.bytes, MUTEX_B + 24, 1002)
    found = waits([task(1000, MUTEX_A), task(1003, MUTEX_B + 12)], memory, ended={1001, 1002})
    assert [one.text().partition(" waits for ")[2] for one in found] == [
        "the mutex at 0x1000, held by thread 1001, which has ended",
        "the reader-writer lock at 0x1100, held by thread 1002, which has ended",
    ]


def test_a_destroyed_mutex() -> None:
    memory = Memory()
    memory.mutex(MUTEX_A, 1001, 0x80000000 | 1001, 0xFFFFFFFF)
    found = waits([task(1000, MUTEX_A), task(1001, None, "a read of a pipe")], memory)
    assert found[0].text() == "thread 1000 (guest) waits for the mutex at 0x1000, destroyed meanwhile"


WORK = Waiting(1, "", Awaited.WORK, call="a connection")


@pytest.mark.parametrize(
    ("others", "never"),
    [
        ((), []),
        # For nobody in particular; for who waits for work; for who waits for who does.
        ((Waiting(2, "", Awaited.CONDITION, 8),), []),
        ((Waiting(2, "", Awaited.MUTEX, 8, 1), Waiting(3, "", Awaited.THREAD, 16, 2)), []),
        # A cycle, and who waits for one of it; oneself; who has ended; what was destroyed.
        (
            (
                Waiting(2, "", Awaited.MUTEX, 8, 3),
                Waiting(3, "", Awaited.MUTEX, 16, 2),
                Waiting(4, "", Awaited.THREAD, 24, 3),
                Waiting(5, "", Awaited.MUTEX, 32, 1),
            ),
            [2, 3, 4],
        ),
        ((Waiting(2, "", Awaited.MUTEX, 8, 2),), [2]),
        ((Waiting(2, "", Awaited.MUTEX, 8, 9, ended=True),), [2]),
        ((Waiting(2, "", Awaited.DESTROYED, 8),), [2]),
    ],
)
def test_who_can_never_go_on(others: tuple[Waiting, ...], never: list[int]) -> None:
    assert stuck((WORK, *others)) == never
    assert works_for_outside((WORK, *others)) is not bool(never)
    assert any("never to go on" in line for line in lines((WORK, *others))) is bool(never)
    # Without work nobody goes on.
    assert stuck(others) == [one.tid for one in others]
    assert not works_for_outside(others)


def test_a_mutex_that_waits_for_itself() -> None:
    memory = Memory()
    memory.mutex(MUTEX_A, 1000)
    found = waits([task(1000, MUTEX_A)], memory)
    assert cycle(found) == [1000]
    assert tell(found).endswith("a cycle: 1000 -> 1000")


def test_condition_variable() -> None:
    memory = Memory()
    memory.condition(COND, 2)
    found = waits([task(1000, COND + 40), task(1001, COND + 44)], memory)
    assert [(one.what, one.address) for one in found] == [(Awaited.CONDITION, COND)] * 2
    assert found[0].text().endswith(" waits for the condition variable at 0x1200")


def test_a_count_that_does_not_fit_is_no_condition_variable() -> None:
    memory = Memory()
    memory.condition(COND, 7)
    (one,) = waits([task(1000, COND + 40)], memory)
    assert one.what is Awaited.FUTEX


def test_lock_of_a_stream() -> None:
    memory = Memory()
    struct.pack_into("<IIQ", memory.bytes, STREAM, 2, 1, POINTERS[1001])
    found = waits([task(1000, STREAM), task(1001, None, "a read of a pipe")], memory)
    assert [one.text() for one in found] == [
        "thread 1000 (guest) waits for the lock of a stream at 0x1300, held by thread 1001",
        "thread 1001 (guest) waits for a read of a pipe",
    ]
    assert cycle(found) == []


def test_names_are_added_where_they_are_known() -> None:
    symbols = Symbols([Symbol(MUTEX_A, 40, "lock")])
    waiting = (
        "thread 1 (x) waits for the mutex at 0x1008, held by thread 2",
        "thread 2 (x) waits for 0x1400",
    )
    first, second = with_names(End("deadlock", text="; ".join(waiting)), symbols.name)
    assert "at 0x1008 (lock+0x8), held" in first
    assert second == waiting[1]
    known = (Waiting(1, "x", Awaited.MUTEX, 0x1008, 2), Waiting(2, "x", Awaited.CALL, call="0x1400"))
    assert with_names(End("deadlock", waits=known), symbols.name) == [first, second]


#: Names of at most 15 characters (prctl(2)), and of files.
IMITATIONS = (
    ") waits for x", "; thread 7 (a", "0x1000", "a; a cycle: 1", "x), held by thr", "{owner}",
)  # fmt: skip
FILE = "a lock of /x; thread 1001 waits for the mutex at 0x1000, held by thread 1000"


@pytest.mark.parametrize("name", IMITATIONS)
def test_a_name_that_imitates_the_sentence(name: str) -> None:
    memory = Memory()
    memory.mutex(MUTEX_A, 1001)
    memory.mutex(MUTEX_B, 1000)
    tasks = [
        task(1000, MUTEX_A, name=name), task(1001, MUTEX_B, name=name), task(1002, None, FILE, name=name)
    ]  # fmt: skip
    found = tuple(waits(tasks, memory))
    end = End("deadlock", text=tell(found), waits=found)
    assert waits_of(end) == found
    assert [(one.what, one.owner) for one in found] == [
        (Awaited.MUTEX, 1001), (Awaited.MUTEX, 1000), (Awaited.CALL, None)
    ]  # fmt: skip
    assert with_names(end, Symbols([Symbol(MUTEX_A, 40, "lock")]).name) == [
        f"thread 1000 ({name}) waits for the mutex at 0x1000 (lock), held by thread 1001",
        f"thread 1001 ({name}) waits for the mutex at 0x1100, held by thread 1000",
        f"thread 1002 ({name}) waits for {FILE}",
        "a cycle: 1000 -> 1001 -> 1000",
    ]


def test_a_name_that_no_terminal_should_see() -> None:
    found = waits([task(1000, None, "a lock of /\n" + "x" * 9999, name="\x1b[31m\udcff")], Memory())
    assert found[0].name == "?[31m?"
    assert found[0].call.startswith("a lock of /?xx")
    assert len(found[0].call) == 512


def test_a_recording_that_has_only_the_sentence() -> None:
    said = (
        Waiting(1000, "guest", Awaited.THREAD, 0x2004, 1001),
        Waiting(1001, "guest", Awaited.MUTEX, MUTEX_B, 1002),
        Waiting(1002, "", Awaited.MUTEX, MUTEX_A, 1001),
        Waiting(1003, "g", Awaited.CALL, call="a read of a pipe"),
    )
    end = End("deadlock", text=tell(said))
    known = waits_of(end)
    assert [one.tid for one in known] == [1000, 1001, 1002, 1003]
    assert known[1:] == said[1:]
    assert (known[0].what, known[0].call) == (Awaited.CALL, "thread 1001 to end")
    assert with_names(end, Symbols([]).name) == lines(said)
    assert waits_of(End("exit", text=tell(said))) == ()
