"""What of a program's end looks suspicious: it is told of the bytes that it is about."""

from __future__ import annotations

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.causes.last_moments import _held, _missed, _passed_over
from corebraid.study.shared_rows import Access
from emu.linux.tasks.waiting import Awaited, Waiting


def test_one_of_two_variables_in_a_word() -> None:
    """Thread 1 looks at the second one, which thread 2 changes, and waits for ever."""
    first, second = 0x1000, 0x1004
    made = [
        Access(0, 1, 0, 5, 0x40, second, 4, READ, 0, 0),
        Access(1, 2, 1, 5, 0x50, first, 4, WRITE, 0, 7),
        Access(2, 2, 1, 6, 0x54, second, 4, WRITE, 0, 1),
    ]
    (moment,) = _missed([Waiting(1, "", Awaited.FUTEX)], made)
    assert moment.address == second
    assert [step.address for step in moment.steps if isinstance(step, Access)] == [second, second]


def test_the_mutexes_of_a_circle_come_first_and_are_certain() -> None:
    """Threads 1 and 2 have a mutex each and want the other's; 3 only waits for 1."""
    first, second = 0x1000, 0x2000
    made = [
        Access(0, 1, 0, 5, 0x40, first, 4, RMW, 0, 1),
        Access(1, 2, 1, 6, 0x50, second, 4, RMW, 0, 1),
        Access(2, 3, 2, 7, 0x60, first, 4, RMW, 1, 2),
        Access(3, 2, 1, 8, 0x70, first, 4, RMW, 2, 2),
        Access(4, 1, 0, 9, 0x80, second, 4, RMW, 1, 2),
    ]
    waits = [
        Waiting(3, "", Awaited.MUTEX, first, owner=1),
        Waiting(2, "", Awaited.MUTEX, first, owner=1),
        Waiting(1, "", Awaited.MUTEX, second, owner=2),
    ]
    found = list(_held(waits, made))
    assert [(one.address, one.certain) for one in found] == [(first, True), (second, True), (first, False)]
    assert all(not one.certain for one in _held(waits[:2], made))


FUNCTIONS = {1: "libc.so.6!pthread_cond_wait+0x1", 2: "libc.so.6!pthread_cond_signal+0x9", 3: "main"}


def signalled(*steps: tuple[int, str, int]) -> list[tuple[int, int]]:
    """What is told of (thread, what it does, value): R and W of a flag by the program itself, w and s calls
    of the C library to wait and to signal. Threads 1 and 3 wait in the end."""
    condition, flag, made = 0x1000, 0x2000, []
    for at, (who, did, value) in enumerate(steps):
        if did in "RW":
            kind = READ if did == "R" else WRITE
            made.append(Access(at, who, who, at, 3, flag, 8, kind, value, value))
        else:
            pc = 1 if did == "w" else 2
            made.append(Access(at, who, who, at, pc, condition, 8, RMW, at, at + 1, 0x90 + who))
    waits = [Waiting(1, "", Awaited.FUTEX), Waiting(3, "", Awaited.FUTEX)]
    found = _passed_over(waits, made, lambda pc: FUNCTIONS[pc])
    return [tuple(step.at for step in one.steps if isinstance(step, Access)) for one in found]  # type: ignore[misc]


def test_one_of_several_was_woken() -> None:
    looks = ((1, "R", 0), (1, "w", 0), (3, "R", 0), (3, "w", 0))
    # Once for each condition variable.
    assert signalled(*looks, (2, "W", 1), (2, "s", 0)) == [(1, 5)]
    # What it looked at is what it was: whoever was woken has used it up.
    assert signalled(*looks, (2, "W", 1), (2, "s", 0), (4, "W", 0)) == []
    # Before any of them waited, or by nobody.
    assert signalled((2, "W", 1), (2, "s", 0), *looks) == []
    assert signalled(*looks, (2, "W", 1)) == []
    assert signalled(looks[0], (2, "W", 1), (2, "s", 0), *looks[1:]) == []
