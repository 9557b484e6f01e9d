"""Who waits for whom, on tasks and memory made up for it."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from corebraid.deadlocks import with_names
from corebraid.symbols import Symbol, Symbols
from emu.linux.deadlock import cycle, tell, waits
from emu.linux.wait import Wait

MUTEX_A, MUTEX_B, COND, STREAM, OTHER = 0x1000, 0x1100, 0x1200, 0x1300, 0x1400
POINTERS = {1000: 0x7000, 1001: 0x7100, 1002: 0x7200}


def task(tid: int, address: int | None, what: str = "a futex", clear: int = 0) -> Any:
    isa = SimpleNamespace(read=lambda registers, name: POINTERS[registers])
    process = SimpleNamespace(isa=isa, abi=SimpleNamespace(thread_pointer="fs_base"))
    wait = Wait((), None, what, address)
    return SimpleNamespace(
        tid=tid, name="guest", wait=wait, clear_child_tid=clear, process=process, registers=tid
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
    assert (one.what, one.owner) == ("the futex at 0x1000 (value 2)", None)


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
    assert [one.what for one in found] == ["the condition variable at 0x1200"] * 2


def test_a_count_that_does_not_fit_is_no_condition_variable() -> None:
    memory = Memory()
    memory.condition(COND, 7)
    (one,) = waits([task(1000, COND + 40)], memory)
    assert one.what.startswith("the futex at")


def test_lock_of_a_stream() -> None:
    memory = Memory()
    struct.pack_into("<IIQ", memory.bytes, STREAM, 2, 1, POINTERS[1001])
    found = waits([task(1000, STREAM), task(1001, None, "a read of a pipe")], memory)
    assert [str(one) for one in found] == [
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
    first, second = with_names("; ".join(waiting), symbols)
    assert "at 0x1008 (lock+0x8), held" in first
    assert second == waiting[1]
