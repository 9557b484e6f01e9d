"""What of a program's end looks suspicious: it is told of the bytes that it is about."""

from __future__ import annotations

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.causes.last_moments import (
    Held,
    Note,
    Says,
    _Ends,
    _held,
    _looking,
    _missed,
    _passed_over,
    _taken,
)
from corebraid.study.shared_rows import Access
from emu.linux.tasks.waiting import Awaited, Waiting


def looks(made: list[Access]) -> list[Access]:
    """Reads of the program's own code."""
    return [one for one in made if one.reads and not one.caller]


def test_one_of_two_variables_in_a_word() -> None:
    """Thread 1 looks at the second one, which thread 2 changes, and waits for ever."""
    first, second = 0x1000, 0x1004
    made = [
        Access(0, 1, 0, 5, 0x40, second, 4, READ, 0, 0),
        Access(1, 2, 1, 5, 0x50, first, 4, WRITE, 0, 7),
        Access(2, 2, 1, 6, 0x54, second, 4, WRITE, 0, 1),
    ]
    (moment,) = _missed([Waiting(1, "", Awaited.FUTEX)], made, looks(made))
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
    circle, other = _held(waits, made, _Ends([made]))
    assert circle.certain
    assert (circle.address, circle.others) == (second, (first,))
    assert [(step.access.at, step.took) for step in circle.steps if isinstance(step, Held)] == [
        (1, True), (4, False), (0, True), (3, False),
    ]  # fmt: skip
    assert (other.address, other.certain) == (first, False)
    assert [(step.access.at, step.took) for step in other.steps if isinstance(step, Held)] == [
        (0, True), (2, False),
    ]  # fmt: skip
    assert not any(one.certain for one in _held(waits[:2], made, _Ends([made])))


def test_a_circle_of_one_and_one_with_a_thread_that_is_to_end() -> None:
    lock = 0x1000
    made = [Access(0, 1, 0, 5, 0x40, lock, 4, RMW, 0, 1), Access(1, 1, 0, 9, 0x44, lock, 4, RMW, 1, 2)]
    (itself,) = _held([Waiting(1, "", Awaited.MUTEX, lock, owner=1)], made, _Ends([made]))
    assert itself.certain
    assert itself.title == "the mutex {word}: taken, and waited for by the thread that has it"
    made = [*made[:1], Access(1, 2, 1, 6, 0x50, lock, 4, RMW, 1, 2)]
    waits = [Waiting(1, "", Awaited.THREAD, owner=2), Waiting(2, "", Awaited.MUTEX, lock, owner=1)]
    (circle,) = _held(waits, made, _Ends([made]))
    assert (circle.address, circle.others) == (lock, ())
    (note,) = (step for step in circle.steps if isinstance(step, Note))
    assert note.text(hex, lambda who: f"thread {who}") == "thread 1 waits for thread 2 to end, after 0x40"


def test_a_mutex_that_is_kept_while_its_owner_waits_for_what_others_do() -> None:
    """Thread 1 waits at a condition variable; 2 and 3 want the mutex that it has kept."""
    lock, changed = 0x1000, 0x2028
    made = [
        Access(0, 1, 0, 5, 0x40, lock, 4, RMW, 0, 1),
        Access(1, 1, 0, 7, 0x48, changed - 4, 4, RMW, 0, 8, 0x90),
        Access(1, 1, 0, 8, 0x4C, changed, 4, READ, 0, 0, 0x90),
        Access(2, 2, 1, 6, 0x50, lock, 4, RMW, 1, 2),
        Access(3, 3, 2, 6, 0x50, lock, 4, RMW, 2, 2),
    ]
    wants = [Waiting(who, "", Awaited.MUTEX, lock, owner=1) for who in (2, 3)]
    # In another run thread 2 does what ends the wait.
    signals = [Access(0, 2, 1, 60, 0x70, changed - 4, 4, READ, 0, 0, 0x99)]
    ends = _Ends([made, signals])
    kept, other = _held([Waiting(1, "", Awaited.CONDITION, changed), *wants], made, ends)
    assert (kept.says, kept.certain, kept.address) == (Says.MOST, False, lock)
    took, waits, wanted = kept.steps
    assert isinstance(took, Held)
    assert isinstance(wanted, Held)
    assert (took.access.at, wanted.access.at) == (0, 2)
    assert isinstance(waits, Note)
    assert waits.text(hex, str) == "1 has it, and waits for something else, after 0x90"
    others = _held([Waiting(1, "", Awaited.CONDITION, changed), *wants], made, _Ends([made]))
    assert [one.says for one in others] == [Says.LITTLE, Says.LITTLE]
    # Once for each mutex; and not where it waits for somebody in particular, or not at all.
    assert other.says is Says.LITTLE
    somebody = [Waiting(1, "", Awaited.THREAD, owner=4), Waiting(1, "", Awaited.MUTEX, changed, owner=4)]
    for waiting in ([somebody[0]], [somebody[1]], []):
        found = [one for one in _held([*waiting, *wants], made, ends) if one.address == lock]
        assert [one.says for one in found] == [Says.LITTLE, Says.LITTLE]


def test_a_semaphore_that_one_has_taken_who_waits_for_another() -> None:
    """Thread 1 has taken the first and waits at the second; 2 wants the first, and is counted above."""
    first, second, waiter = 0x1000, 0x2000, 1 << 32
    made = [
        Access(0, 1, 0, 5, 0x40, first, 8, RMW, 1, 0, 0x90),
        Access(1, 1, 0, 7, 0x48, second, 8, RMW, 0, waiter, 0x98),
        Access(2, 2, 1, 6, 0x40, first, 8, RMW, 0, waiter, 0xA0),
    ]
    waits = [Waiting(1, "", Awaited.FUTEX, second), Waiting(2, "", Awaited.FUTEX, first)]
    # Thread 2 gives back the second one in another run.
    ends = _Ends([made, [Access(0, 2, 1, 60, 0x70, second, 8, RMW, 0, 1, 0x99)]])
    assert not list(_taken(waits, made, _Ends([made])))
    (moment,) = _taken(waits, made, ends)
    assert (moment.address, moment.waited, moment.says) == (first, {second}, Says.MORE)
    assert [step.access.at for step in moment.steps if isinstance(step, Held)] == [0, 2]
    (note,) = (step for step in moment.steps if isinstance(step, Note))
    assert note.text(hex, str) == "1 has it, and waits for something else, after 0x98"
    # Somebody has given it back, or who took it waits at it too, or does not wait.
    posted = Access(3, 3, 2, 1, 0x60, first, 8, RMW, waiter, waiter + 1, 0xB0)
    assert not list(_taken(waits, [*made, posted], ends))
    assert not list(_taken([Waiting(1, "", Awaited.FUTEX, first), waits[1]], made, ends))
    assert not list(_taken(waits[1:], made, ends))


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
    found = _passed_over(waits, made, looks(made), lambda pc: FUNCTIONS[pc])
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


def test_threads_that_have_looked_at_what_the_other_one_wrote() -> None:
    """Each has begun something, and waits for the end of what the other one has begun."""
    one, other = 0x1000, 0x2000
    waits = [Waiting(1, "", Awaited.CONDITION), Waiting(2, "", Awaited.CONDITION)]
    made = [
        Access(0, 1, 0, 5, 0x40, one, 4, WRITE, 0, 1),
        Access(1, 2, 1, 6, 0x40, other, 4, WRITE, 0, 1),
        Access(2, 1, 0, 7, 0x50, other, 4, READ, 1, 1),
        Access(3, 2, 1, 8, 0x50, one, 4, READ, 1, 1),
    ]
    (moment,) = _looking(waits, made, looks(made))
    assert (moment.address, moment.others, moment.certain) == (other, (one,), False)
    assert [step.at for step in moment.steps if isinstance(step, Access)] == [1, 2, 0, 3]
    # One of them does not wait; what it has looked at is another now; or it wrote it itself.
    assert not list(_looking(waits[:1], made, looks(made)))
    later = [*made, Access(4, 3, 2, 9, 0x60, other, 4, WRITE, 1, 2)]
    assert not list(_looking(waits, later, looks(later)))
    own = [*made[:3], Access(3, 2, 1, 8, 0x50, other, 4, READ, 1, 1)]
    assert not list(_looking(waits, own, looks(own)))
